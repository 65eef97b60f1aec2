"""Sweeps over settings on Optuna storage: a plan, trials drawn in rounds, the workers that train them."""
