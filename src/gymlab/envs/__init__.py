"""Environments: their registry, how one is made and wrapped, and the engines that step many of them."""
