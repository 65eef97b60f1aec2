"""Environments: what they are called, how they are made, and the engines that step many of them."""
