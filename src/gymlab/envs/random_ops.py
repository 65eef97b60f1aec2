"""Random numbers for transforms: drawn by JAX, so equal for equal keys, returned as the step's kind of array."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from gymlab.core.arrays import namespace
from gymlab.core.types import Array


def normal(key: Array | None, stream: int, like: Array) -> Array:
    """Standard normal numbers, float32, in the shape of `like`."""
    return _as(like, _normal(key, np.uint32(stream), like.shape))


def uniform(key: Array | None, stream: int, like: Array, shape: tuple[int, ...]) -> Array:
    """Numbers in [0, 1), float32, as a NumPy or JAX array like `like`."""
    return _as(like, _uniform(key, np.uint32(stream), shape))


def _as(like: Array, drawn: Array) -> Array:
    return np.asarray(drawn) if namespace(like) is np else drawn


@partial(jax.jit, static_argnames="shape")
def _normal(key: Array, stream: Array, shape: tuple[int, ...]) -> Array:
    return jax.random.normal(jax.random.fold_in(key, stream), shape)


@partial(jax.jit, static_argnames="shape")
def _uniform(key: Array, stream: Array, shape: tuple[int, ...]) -> Array:
    return jax.random.uniform(jax.random.fold_in(key, stream), shape)
