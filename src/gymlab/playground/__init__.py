"""Training one small env live, with its scheduled numbers in a learner's hands."""
