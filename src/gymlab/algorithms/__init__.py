"""Learning rules. They know no envs, files or features."""
