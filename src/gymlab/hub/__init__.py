"""Sharing: what leaves the lab, in forms that work without it."""
