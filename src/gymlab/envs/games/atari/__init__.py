"""Atari 2600 games over ale-py: one way of playing them, seen as pictures or as the objects in their memory."""
