"""Orthogonal initial weights, as `jax.nn.initializers.orthogonal` gives them, without LAPACK.

JAX's goes through SciPy's LAPACK, whose loading costs every run a quarter of a second and 27 MB.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.types import Array


@partial(jax.jit, static_argnums=(1, 2))  # layers of one shape are traced once
def orthogonal(key: Array, shape: tuple[int, ...], scale: float) -> Array:
    """Weights of a layer (..., out) whose columns, or rows where those are fewer, are orthogonal and `scale` long."""
    out, rest = shape[-1], math.prod(shape[:-1])
    drawn = jax.random.normal(key, (max(out, rest), min(out, rest)), jnp.float32)
    columns = _orthonormal(drawn)
    return scale * (columns if rest >= out else columns.T).reshape(shape)


def _orthonormal(matrix: Array) -> Array:
    """Gram-Schmidt, column after column. Each is projected twice: once leaves float32's rounding in."""

    def add(i: Array, found: Array) -> Array:
        column = matrix[:, i]
        for _ in range(2):
            column = column - found @ (found.T @ column)
        return found.at[:, i].set(column / jnp.linalg.norm(column))

    return lax.fori_loop(0, matrix.shape[1], add, jnp.zeros_like(matrix))
