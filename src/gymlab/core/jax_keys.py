"""JAX PRNG keys of named streams: `core.rng` for compiled code."""

from __future__ import annotations

from typing import Any, cast

import jax
import numpy as np

from gymlab.core.rng import stream_id
from gymlab.core.types import Array


def run_key(seed: int) -> Array:
    """The root key of a run, equal to `jax.random.key(seed)`, made without compiling a program."""
    return wrap_key(np.array([0, seed % 2**32], np.uint32))


def stream_key(key: Array, name: str, *indices: Array | int) -> Array:
    """The key of a named stream at some indices (group, update, step); indices may be traced."""
    key = jax.random.fold_in(key, np.uint32(stream_id(name)))
    for index in indices:
        key = jax.random.fold_in(key, index)
    return key


def named_key(seed: int, name: str, *indices: int) -> Array:
    """`stream_key(run_key(seed), name, *indices)`, made without compiling a program."""
    return wrap_key(np.array(_named_words(seed, name, *indices), np.uint32))


def named_key_words(seed: int, name: str, first: int, count: int) -> np.ndarray:
    """(count, 2) words of `named_key(seed, name, i)` from i = `first` on; compiled code wraps them with `wrap_key`."""
    zeros = np.zeros(count, np.uint64)
    words = _threefry(_named_words(seed, name), (zeros, zeros + np.arange(first, first + count, dtype=np.uint64)))
    return np.stack(words, -1).astype(np.uint32)


def wrap_key(words: Array) -> jax.Array:
    """The key with these two words."""
    return jax.random.wrap_key_data(cast("jax.Array", words), impl="threefry2x32")


def _named_words(seed: int, name: str, *indices: int) -> tuple[Any, Any]:
    key = (0, seed % 2**32)
    for word in (stream_id(name), *indices):
        key = _threefry(key, (0, word))
    return key


def _threefry(key: tuple[Any, Any], count: tuple[Any, Any]) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011), the hash of JAX's keys: ints, or arrays of uint64."""
    words = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x = (count[0] + words[0]) % 2**32
    y = (count[1] + words[1]) % 2**32
    for group in range(5):
        for bits in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = (x + y) % 2**32
            y = ((y << bits | y >> 32 - bits) % 2**32) ^ x
        x = (x + words[(group + 1) % 3]) % 2**32
        y = (y + words[(group + 2) % 3] + group + 1) % 2**32
    return x, y
