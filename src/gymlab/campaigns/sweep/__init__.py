"""Sweeps over settings: which trials there are, who does them, and what came of each. Builds on Optuna's storages."""
