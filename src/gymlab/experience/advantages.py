"""Advantages and returns: GAE, Monte-Carlo returns, and rollouts as batches with their advantages.

The maths is over (T, N) arrays, time first. Termination never bootstraps; truncation bootstraps from the value of the
true successor; nothing leaks past either. A trailing axis (rewards learnt side by side, each with its own gamma, lambda
and mask) broadcasts through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.arrays import where_rows
from gymlab.core.types import Array, Replayed, Rollout, Tree

# Unrolling hides the cost of XLA's loop on short bodies.
_UNROLL = 8


def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    *,
    gamma: Array | float,
    lam: Array | float,
) -> Array:
    """Generalised advantage estimates; `next_values` are V(s') of the true successors."""
    assert rewards.shape[:2] == values.shape[:2] == next_values.shape[:2], "values of another rollout"
    assert terminated.shape[:2] == truncated.shape[:2] == rewards.shape[:2], "endings of another rollout"
    delta = rewards + gamma * next_values * ~terminated - values
    return _sum_back(delta, gamma * lam * ~(terminated | truncated))


def monte_carlo(
    rewards: Array, end_values: Array, terminated: Array, truncated: Array, *, gamma: Array | float
) -> Array:
    """Discounted sums to the end of each episode; a truncated one ends with `end_values` (V of its successor, or 0).

    Where an episode is still open at the last row its sums are partial: the caller leaves those rows out.
    """
    bonus = rewards + gamma * end_values * truncated
    return _sum_back(bonus, gamma * ~(terminated | truncated))


def _sum_back(gain: Array, decay: Array) -> Array:
    """sum[t] = gain[t] + decay[t] * sum[t + 1], from the last row to the first."""

    def back(running: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        gain_t, decay_t = step
        running = gain_t + decay_t * running
        return running, running

    rows = cast("tuple[jax.Array, jax.Array]", (gain, decay))
    _, sums = lax.scan(back, jnp.zeros_like(rows[0][0]), rows, reverse=True, unroll=_UNROLL)
    return sums


Replay = Callable[[Rollout], Replayed]


class Value(Protocol):
    """V of observations (..., *obs), from a policy's carry, which is reset where `fresh`."""

    def __call__(self, obs: Tree, carry: Tree, fresh: Array | None = None) -> Array: ...


class Batch(NamedTuple):
    """Transitions with time and env axes folded into one."""

    obs: Tree  # (B, *obs)
    action: Array  # (B, *act)
    log_prob: Array  # (B,) when it was chosen
    value: Array  # (B,) before the update
    advantage: Array  # (B,)
    target: Array  # (B,) what the value should have been
    # A policy without memory learns from steps in any order: theirs are ().
    fresh: Tree = ()
    carry: Tree = ()


class StateValues(NamedTuple):
    """Values of a rollout, all (T, N), or (T, N, S) of several reward streams."""

    values: Array  # of each observation
    next_values: Array  # of each true successor
    following: Array  # of each next observation, which may be the first one of a new episode


def state_values(replay: Replay, value: Value, rollout: Rollout) -> StateValues:
    """The values of a rollout's states.

    A successor is the next observation except where an episode was cut, so its own value is only computed when one was.
    It is valued with the memory of its own episode, the one after the step.
    """
    replayed = replay(rollout)
    values = replayed.value
    last = jax.tree.map(lambda x: x[-1], replayed.carries)
    following = jnp.concatenate([values[1:], value(rollout.last_obs, last, rollout.fresh[-1])[None]])
    next_values = lax.cond(
        rollout.truncated.any(),
        lambda: where_rows(rollout.truncated, value(rollout.successor, replayed.carries), following),
        lambda: following,
    )
    return StateValues(values, next_values, following)


def gae_batch(replay: Replay, value: Value, rollouts: tuple[Rollout, ...], gamma: Array, lam: Array) -> Batch:
    """All groups' transitions with their generalised advantage estimates."""

    def one(rollout: Rollout) -> Batch:
        values, next_values, _ = state_values(replay, value, rollout)
        advantages = gae(
            rollout.train_reward, values, next_values, rollout.terminated, rollout.truncated, gamma=gamma, lam=lam
        )
        batch = Batch(rollout.obs, rollout.action, rollout.log_prob, values, advantages, advantages + values)
        return jax.tree.map(fold, batch)

    return jax.tree.map(lambda *parts: jnp.concatenate(parts) if len(parts) > 1 else parts[0], *map(one, rollouts))


def fold(array: Array) -> Array:
    """(T, N, ...) to (T * N, ...)."""
    return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def normalize(x: Array, weight: Array | None = None, eps: float = 1e-8) -> Array:
    """Zero mean and unit std over the whole array, or over the part that `weight` marks (0 elsewhere)."""
    if weight is None:
        return (x - x.mean()) / (x.std() + eps)
    count = jnp.maximum(weight.sum(), 1)
    mean = (x * weight).sum() / count
    std = jnp.sqrt((((x - mean) ** 2) * weight).sum() / count)
    return (x - mean) / (std + eps) * weight
