"""Evaluation in a process of its own: `client` asks, `process` answers, both by the same function."""
