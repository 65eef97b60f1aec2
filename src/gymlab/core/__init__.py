"""Types, errors, schedules, clocks and random streams that every other package uses; no input or output."""

__version__ = "0.1.0"  # here, so that it can be read without importing the Python API
