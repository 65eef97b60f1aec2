"""Features of a run: event handlers for everything but learning, one file each, independent of each other."""
