"""What algorithms learn from: returns and advantages, minibatches."""
