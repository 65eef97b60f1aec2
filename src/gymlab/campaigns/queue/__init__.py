"""Job queue of a runs folder: a file on disk, and a runner process that starts the jobs within limits."""
