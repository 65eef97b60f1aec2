"""What is wrong with a run, judged from its folder alone: `examine` is the door."""
