"""Ports: envs compiled with JAX (and NumPy versions for evaluation), step for step equal to Gymnasium's."""
