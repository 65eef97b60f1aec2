"""JAX PRNG keys of named streams: `core.rng` for compiled code."""

from __future__ import annotations

import jax
import numpy as np

from gymlab.core.rng import stream_id
from gymlab.core.types import Array


def run_key(seed: int) -> Array:
    """The root key of a run, equal to `jax.random.key(seed)`, made without compiling a program."""
    return jax.random.wrap_key_data(np.array([0, seed % 2**32], np.uint32), impl="threefry2x32")  # type: ignore[arg-type]


def stream_key(key: Array, name: str, *indices: Array | int) -> Array:
    """The key of a named stream at some indices (group, update, step); indices may be traced."""
    key = jax.random.fold_in(key, np.uint32(stream_id(name)))
    for index in indices:
        key = jax.random.fold_in(key, index)
    return key


def named_key(seed: int, name: str, *indices: int) -> Array:
    """`stream_key(run_key(seed), name, *indices)`, made without compiling a program."""
    key = (0, seed % 2**32)
    for word in (stream_id(name), *indices):
        key = _threefry(key, (0, word))
    return jax.random.wrap_key_data(np.array(key, np.uint32), impl="threefry2x32")  # type: ignore[arg-type]


def _threefry(key: tuple[int, int], count: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011), the hash of JAX's keys, for one pair of words."""
    words = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = (count[0] + words[0]) % 2**32, (count[1] + words[1]) % 2**32
    for group in range(5):
        for bits in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = (x + y) % 2**32
            y = ((y << bits | y >> 32 - bits) % 2**32) ^ x
        x = (x + words[(group + 1) % 3]) % 2**32
        y = (y + words[(group + 2) % 3] + group + 1) % 2**32
    return x, y
