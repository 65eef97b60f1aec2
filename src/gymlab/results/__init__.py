"""Proof: many seeds of a recipe, scored alike on fresh episodes, beside what others published."""
