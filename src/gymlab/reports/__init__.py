"""A run as text, tables and pictures: pure functions of its folder."""
