"""The one way to draw in, plot in and read keys from a terminal, and to restore its settings."""
