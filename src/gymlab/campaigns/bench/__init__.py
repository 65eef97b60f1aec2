"""Training speed on this machine, optionally beside a peer on the same work."""
