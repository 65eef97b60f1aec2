"""One episode taken apart: what the policy saw, did, expected and got, step by step, and what it would do instead.

`worker` is a process of its own that holds JAX, the env and the policy; `client` is how a page speaks with it.
"""
