"""The results table: its plan, its records (one file per run), and docs/results.md made of them."""
