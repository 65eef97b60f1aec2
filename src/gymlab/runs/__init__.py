"""Runs on disk: this package owns every file format of a run. It imports neither JAX nor Gymnasium."""
