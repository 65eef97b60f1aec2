"""A run's policy at play again: as a table, a film, a reel, a web page, in a window or in the terminal."""
