"""Array functions that work on NumPy and JAX arrays alike, without importing JAX."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np

from gymlab.core.types import Array, Tree


def namespace(array: Array) -> ModuleType:
    """`jax.numpy` for JAX arrays and tracers, else `numpy`."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(array, jax.Array):
        return jax.numpy
    return np


def reset_carry(carry: Tree, fresh: Array, initial: Tree) -> Tree:
    """The carry with rows that start an episode set back to the beginning."""
    import jax

    return jax.tree.map(lambda start, held: where_rows(fresh, start, held), initial, carry)


def where_rows(mask: Array, yes: Array, no: Array) -> Array:
    """`yes` in the rows (axis 0) where `mask` is set, else `no`."""
    xp = namespace(yes)
    return xp.where(xp.reshape(mask, mask.shape + (1,) * (yes.ndim - mask.ndim)), yes, no)
