"""Builds a run from a recipe and trains it: the only room that knows all parts of a run."""
