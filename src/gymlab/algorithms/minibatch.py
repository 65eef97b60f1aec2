"""Shuffled minibatches: each epoch is one permutation of all samples, cut into equal parts."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gymlab.core.types import Array, Tree


def shuffled(key: Array, samples: int, size: int, epochs: int) -> Array:
    """Indices of every minibatch of an update, (epochs * samples / size, size)."""
    assert samples % size == 0, f"minibatches of {size} do not cover {samples} samples exactly"
    keys = jax.random.split(key, epochs)
    orders = jax.vmap(lambda k: jax.random.permutation(k, samples))(keys)
    return orders.reshape(epochs * (samples // size), size)


def take(batch: Tree, indices: Array) -> Tree:
    return jax.tree.map(lambda x: jnp.take(x, indices, axis=0), batch)
