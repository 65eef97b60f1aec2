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


def named_key(seed: int, name: str, *indices: int) -> Array:
    """`stream_key(run_key(seed), name, *indices)`, without a program to compile."""
    key = (0, seed % 2**32)
    for word in (stream_id(name), *indices):
        key = _threefry(key, (0, word))
    return jax.random.wrap_key_data(np.array(key, np.uint32), impl="threefry2x32")  # type: ignore[arg-type]


def _threefry(key: tuple[int, int], count: tuple[int, int]) -> tuple[int, int]:
    """The hash behind JAX's keys, Threefry-2x32 with 20 rounds (Salmon et al., 2011), of one pair of words."""
    words = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = (count[0] + words[0]) % 2**32, (count[1] + words[1]) % 2**32
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = (x + y) % 2**32
            y = ((y << turn | y >> 32 - turn) % 2**32) ^ x
        x = (x + words[(group + 1) % 3]) % 2**32
        y = (y + words[(group + 2) % 3] + group + 1) % 2**32
    return x, y
