"""How fast training is on this machine, beside a peer on the same work where one is there."""
