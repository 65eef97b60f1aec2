"""The life of a run. Start with `loop`."""
