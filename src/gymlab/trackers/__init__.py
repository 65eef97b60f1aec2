"""Trackers: copies of a run for TensorBoard and Weights & Biases. The run's own store is the truth they follow."""
