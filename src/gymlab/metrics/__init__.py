"""What a run can measure. `catalogue` is the door: every metric is declared once, in one file per group of names."""
