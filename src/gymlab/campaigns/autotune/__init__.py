"""Autotune: a search for better settings within a time limit, confirmed on fresh seeds."""
