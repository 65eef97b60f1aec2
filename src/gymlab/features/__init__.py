"""What a run does beside learning: one file each, independent of each other, driven by events."""
