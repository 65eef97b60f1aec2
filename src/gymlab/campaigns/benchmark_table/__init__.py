"""Benchmark table: recipes trained over seeds, a record per run, and docs/results.md with the scores."""
