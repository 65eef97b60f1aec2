"""Orthogonal initial weights, as `jax.nn.initializers.orthogonal` gives them, up to rounding.

JAX's goes through SciPy's LAPACK, whose loading costs every run a quarter of a second and 27 MB. Ours does that for
wide layers alone, where it is the quicker way (a network of two layers of 1024: 0.2 s instead of 9).
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.types import Array

_WIDE = 512  # columns; more of them go through LAPACK
_FEWEST = 4096  # numbers drawn at once: enough for most layers, so that drawing is lowered once for all of them


class WeightSpec(NamedTuple):
    """Weights of a layer (..., out) whose columns, or rows where those are fewer, are orthogonal and `scale` long."""

    key: Array
    shape: tuple[int, ...]
    scale: float


def orthogonal(key: Array, shape: tuple[int, ...], scale: float) -> Array:
    """The weights of one layer."""
    return orthogonal_layers([WeightSpec(key, shape, scale)])[0]


def orthogonal_layers(layers: list[WeightSpec]) -> list[Array]:
    """The same of several: drawn at once where they are of a size, which compiles in half the time."""
    counts = [max(_FEWEST, 1 << (math.prod(layer.shape) - 1).bit_length()) for layer in layers]
    made: dict[int, Array] = {}
    for count in dict.fromkeys(counts):
        places = [place for place, other in enumerate(counts) if other == count]
        drawn = _drawn(jnp.stack([layers[place].key for place in places]), count)
        for place, numbers in zip(places, drawn, strict=True):
            made[place] = _shaped(numbers, layers[place].shape, layers[place].scale)
    return [made[place] for place in range(len(layers))]


@partial(jax.jit, static_argnums=1)
def _drawn(keys: Array, count: int) -> Array:
    """(keys, count) normal numbers, the first of them the same however many."""
    return jax.vmap(lambda key: jax.random.normal(key, (count,), jnp.float32))(keys)


@partial(jax.jit, static_argnums=(1, 2))  # layers of one shape are traced once
def _shaped(drawn: Array, shape: tuple[int, ...], scale: float) -> Array:
    out = shape[-1]
    rest = math.prod(shape[:-1])
    matrix = drawn[: out * rest].reshape(max(out, rest), min(out, rest))
    columns = _orthonormal(matrix) if matrix.shape[1] <= _WIDE else _by_reflections(matrix)
    return scale * (columns if rest >= out else columns.T).reshape(shape)


def _orthonormal(matrix: Array) -> Array:
    """Gram-Schmidt, column after column. Each is projected twice: once leaves float32's rounding in."""

    def add(i: jax.Array, found: jax.Array) -> jax.Array:
        column = matrix[:, i]
        for _ in range(2):
            column = column - found @ (found.T @ column)
        return found.at[:, i].set(column / jnp.linalg.norm(column))

    return lax.fori_loop(0, matrix.shape[1], add, jnp.zeros_like(matrix))


def _by_reflections(matrix: Array) -> Array:
    """The same columns by LAPACK, whose signs are its own."""
    columns, triangle = jnp.linalg.qr(matrix)
    return columns * jnp.where(jnp.diagonal(triangle) < 0, -1.0, 1.0)
