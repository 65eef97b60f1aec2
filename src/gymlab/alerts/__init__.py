"""Rules that tell when learning goes wrong, why, and what to change. Pure: rows of metrics in, alerts out."""
