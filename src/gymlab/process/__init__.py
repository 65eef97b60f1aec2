"""Child processes: starting them, exchanging messages, ending them, and measuring what they use."""
