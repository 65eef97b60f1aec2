"""One queue for everything that takes long: a file in the runs folder, and a process that works through it."""
