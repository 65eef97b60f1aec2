"""JAX keys for named streams: the compiled counterpart of `core.rng`."""

from __future__ import annotations

import jax
import numpy as np

from gymlab.core.rng import stream_id
from gymlab.core.types import Array


def run_key(seed: int) -> Array:
    """The key every other key of a run is derived from: that of `jax.random.key`, without a program to compile."""
    return jax.random.wrap_key_data(np.array([0, seed % 2**32], np.uint32), impl="threefry2x32")  # type: ignore[arg-type]


def stream_key(key: Array, name: str, *indices: Array | int) -> Array:
    """The key of a named stream at some indices (group, update, step); indices may be traced."""
    key = jax.random.fold_in(key, np.uint32(stream_id(name)))
    for index in indices:
        key = jax.random.fold_in(key, index)
    return key
