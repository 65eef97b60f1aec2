"""Recipes: tuned settings as data, strictly checked."""
