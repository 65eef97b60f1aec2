"""What algorithms learn from: GAE and Monte-Carlo advantages, minibatches."""
