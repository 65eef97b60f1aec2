"""Starting child processes, talking to them, and measuring what they use."""
