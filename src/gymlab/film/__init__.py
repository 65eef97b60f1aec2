"""Pictures of episodes: taking them, writing on them, and films made of them."""
