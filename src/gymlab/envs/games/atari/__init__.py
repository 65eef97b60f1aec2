"""Atari 2600 games over ale-py: one emulation loop, observed as images or as the objects in their memory."""
