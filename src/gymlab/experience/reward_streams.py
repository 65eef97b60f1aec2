"""Reward streams: rewards learnt side by side, each with its own value, discount and ends, on a trailing axis.

Rollouts hold the extrinsic stream alone. An algorithm stacks its bonuses on it inside `update`, and reports them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp

from gymlab.core.types import Array, Rollout
from gymlab.experience.advantages import StateValues, gae


class RewardStream(NamedTuple):
    gamma: Array | float
    lam: Array | float
    coefficient: Array | float = 1.0  # of its advantages in the policy's
    episodic: bool = True  # False: it goes on from one episode into the next, as a bonus for new states does


def stream_gae(rewards: Array, values: StateValues, rollout: Rollout, streams: Sequence[RewardStream]) -> Array:
    """(T, N, S) advantages of each stream; `rewards` and `values` are (T, N, S) too.

    A stream that is not episodic is valued at the next observation, the first one of the next episode included.
    """
    episodic = jnp.array([stream.episodic for stream in streams])
    return gae(
        rewards,
        values.values,
        jnp.where(episodic, values.next_values, values.following),
        rollout.terminated[..., None] & episodic,
        rollout.truncated[..., None] & episodic,
        gamma=jnp.stack([jnp.asarray(stream.gamma, jnp.float32) for stream in streams]),
        lam=jnp.stack([jnp.asarray(stream.lam, jnp.float32) for stream in streams]),
    )


def joined_advantages(advantages: Array, streams: Sequence[RewardStream]) -> Array:
    """(T, N) the weighted sum of all streams' advantages, which the policy follows."""
    return advantages @ jnp.stack([jnp.asarray(stream.coefficient, jnp.float32) for stream in streams])


def intrinsic_metrics(bonus: Array) -> dict[str, Array]:
    """What is reported of a bonus: never part of a return."""
    return {"intrinsic/reward_mean": bonus.mean(), "intrinsic/reward_std": bonus.std()}
