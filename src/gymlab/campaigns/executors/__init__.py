"""Executors: train a set of runs in warm worker processes, in one vmapped program, or by commands."""
