"""Environments compiled with JAX, step for step equal to their Gymnasium originals."""
