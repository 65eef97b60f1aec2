"""Evaluation in child processes: one for a run, or a pool of them for many runs in one process."""
