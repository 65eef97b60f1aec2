"""Returns and advantages: pure maths over (T, N) arrays, time first.

Termination never bootstraps; truncation bootstraps from the value of the true successor; nothing leaks past either.
A trailing stream axis (rewards learnt side by side, each with its own gamma, lambda and mask) broadcasts through.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from gymlab.core.types import Array

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

    def back(running: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        gain_t, decay_t = step
        running = gain_t + decay_t * running
        return running, running

    _, sums = lax.scan(back, jnp.zeros_like(gain[0]), (gain, decay), reverse=True, unroll=_UNROLL)
    return sums
