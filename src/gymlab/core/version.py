"""The version of this package, readable without importing the Python API."""

__version__ = "0.1.0"
