"""Returns and lengths of training episodes: running sums per env and a window of the last finished ones."""

from __future__ import annotations

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.types import Array

WINDOW = 100


class Episodes(NamedTuple):
    """Returns are sums of the env's own reward, not of the training reward."""

    running_return: Array  # (N,) of the open episode
    running_length: Array  # (N,)
    returns: Array  # (WINDOW,) ring of the last finished episodes
    lengths: Array  # (WINDOW,)
    finished: Array  # () how many episodes ever finished


def start(n_envs: int) -> Episodes:
    zeros = jnp.zeros(n_envs, jnp.float32)
    ring = jnp.zeros(WINDOW, jnp.float32)
    return Episodes(zeros, jnp.zeros(n_envs, jnp.int32), ring, ring, jnp.int32(0))


def track(episodes: Episodes, reward: Array, fresh: Array) -> tuple[Episodes, dict[str, Array]]:
    """Add a rollout's rewards, both (T, N); an episode ends where the next observation is fresh."""

    def step(
        running: tuple[Array, Array], inputs: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        total = running[0] + inputs[0]
        length = running[1] + 1
        kept = ~inputs[1]
        return (total * kept, length * kept), (total, length)

    running = (episodes.running_return, episodes.running_length)
    running, (totals, lengths) = lax.scan(step, running, (reward, fresh), unroll=8)

    ended = fresh.ravel()  # row-major, so in order of time
    count = ended.sum(dtype=jnp.int32)
    rank = jnp.cumsum(ended, dtype=jnp.int32) - 1
    # Only the last WINDOW endings may write, so that no two of them share a slot; the others are dropped.
    writes = ended & (rank >= count - WINDOW)
    slot = jnp.where(writes, (episodes.finished + rank) % WINDOW, WINDOW)
    returns = cast("jax.Array", episodes.returns).at[slot].set(totals.ravel(), mode="drop")
    ring_lengths = cast("jax.Array", episodes.lengths).at[slot].set(lengths.ravel().astype(jnp.float32), mode="drop")
    after = Episodes(*running, returns, ring_lengths, episodes.finished + count)
    return after, {**window_metrics(after), "roll/episodes": count}


def window_metrics(episodes: Episodes) -> dict[str, Array]:
    """Means over the window, with how many episodes it holds: below WINDOW it is partial."""
    held = jnp.minimum(episodes.finished, WINDOW)
    inside = jnp.arange(WINDOW) < held
    rings = jnp.stack([episodes.returns, episodes.lengths])

    def mean_of(values: Array) -> Array:
        # Scalar divisions, which round once: a mean of 500s is 500 and reaches a threshold of 500.
        sums = jnp.sum(values * inside, 1)
        count = jnp.maximum(held, 1)
        return jnp.stack([sums[0] / count, sums[1] / count])

    mean = mean_of(rings)
    std = jnp.sqrt(mean_of((rings - mean[:, None]) ** 2))
    highest = jnp.max(jnp.where(inside, jnp.concatenate([rings, -rings]), -jnp.inf), 1)
    numbers = jnp.where(held > 0, jnp.concatenate([mean, std, -highest[2:], highest[:2]]), jnp.nan)
    names = (f"roll/{what}_{word}" for word in ("mean", "std", "min", "max") for what in ("return", "length"))
    return {"roll/return_window": held, **dict(zip(names, numbers, strict=True))}
