"""Shuffled minibatches: each epoch is one permutation of all samples, cut into equal parts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.types import Array, Tree


def shuffled(key: Array, samples: int, size: int, epochs: int) -> Array:
    """Indices of every minibatch of an update, (epochs * samples / size, size)."""
    assert samples % size == 0, f"minibatches of {size} do not cover {samples} samples exactly"
    orders = jax.vmap(lambda k: _permutation(k, samples))(jax.random.split(key, epochs))
    return orders.reshape(epochs * (samples // size), size)


def _permutation(key: Array, count: int) -> Array:
    """jax.random.permutation with one sort always, where it takes two from some 1,600 numbers on.

    The second would break ties between 32-bit keys: of two million samples a thousand keep their order. On a GPU the
    sort was a quarter of an update.
    """
    _, bits = jax.random.split(key)
    return lax.sort_key_val(jax.random.bits(bits, (count,)), jnp.arange(count, dtype=jnp.int32))[1]


def take(batch: Tree, indices: Array) -> Tree:
    return jax.tree.map(lambda x: jnp.take(x, indices, axis=0), batch)
