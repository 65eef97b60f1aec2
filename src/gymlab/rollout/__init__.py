"""Collecting experience, in a Python loop or inside compiled code, and scoring policies with it."""
