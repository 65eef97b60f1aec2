"""Invariants of rollouts, for `assert`: `python -O` or PYTHONOPTIMIZE=1 leaves them out.

What an env or a user may get wrong is no invariant: that is always checked, and reported by name.
"""

from __future__ import annotations

import jax
import numpy as np

from gymlab.core.types import Rollout

_PER_ENV = ("reward", "train_reward", "terminated", "truncated", "fresh")
_FLAGS = ("terminated", "truncated", "fresh")


def ending_fault(rollout: Rollout) -> str:
    """Which env of a collected rollout ended in both ways at once; "" if none did."""
    both = rollout.terminated & rollout.truncated
    if not both.any():
        return ""
    step, env = np.argwhere(both)[0]
    return f"env {env} is terminated and truncated at once in step {step + 1} of the rollout"


def rollout_fault(rollout: Rollout) -> str:
    """What is wrong with a rollout's shapes and types, also while it is traced; "" if nothing is."""
    lead = rollout.reward.shape
    if len(lead) != 2:
        return f"reward has shape {lead} and not (steps, envs)"
    for name in _PER_ENV:
        shape = getattr(rollout, name).shape
        if shape != lead:
            return f"{name} has shape {shape} in a rollout of {lead}"
    for name in _FLAGS:
        dtype = getattr(rollout, name).dtype
        if dtype.kind != "b":
            return f"{name} is {dtype} and not bool"
    for name in ("obs", "action", "log_prob", "components", "successor", "extras"):
        for leaf in jax.tree.leaves(getattr(rollout, name)):
            if leaf.shape[:2] != lead:
                return f"{name} has shape {leaf.shape} in a rollout of {lead}"
    for leaf in jax.tree.leaves(rollout.last_obs):
        if leaf.shape[:1] != lead[1:]:
            return f"last_obs has shape {leaf.shape} in a rollout of {lead}"
    return ""
