"""Alert rules: what goes wrong in training, why, and what to change. Pure: rows of metrics in, alerts out."""
