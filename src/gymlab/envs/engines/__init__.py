"""Engines: many envs stepped as one, on the host or inside compiled code."""
