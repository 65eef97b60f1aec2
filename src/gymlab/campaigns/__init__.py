"""Sets of runs under one executor: seeds, comparisons, results tables, sweeps, queues."""
