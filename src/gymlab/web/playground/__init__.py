"""The playground: training a small env live with adjustable hyperparameters, in a worker process per page."""
