"""Pytrees of arrays to named tensors and back, for checkpoint files."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.core.errors import RunError
from gymlab.core.types import Array, Tree

Tensors = dict[str, np.ndarray]


def to_tensors(tree: Tree) -> Tensors:
    """Each leaf by its path; PRNG keys as their key data."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {_name(path): _plain(leaf) for path, leaf in leaves}


def from_tensors(template: Tree, tensors: Mapping[str, np.ndarray]) -> Tree:
    """The tensors in the structure of `template`; missing, extra or differently shaped ones are refused by name."""
    leaves, treedef = jax.tree_util.tree_flatten_with_path(template)
    expected = {_name(path): leaf for path, leaf in leaves}
    missing = sorted(expected.keys() - tensors.keys())
    extra = sorted(tensors.keys() - expected.keys())
    if missing:
        raise RunError(f"the checkpoint lacks {', '.join(missing[:5])}: it cannot be continued from")
    if extra:
        raise RunError(f"the checkpoint holds {', '.join(extra[:5])}, which this recipe does not know")
    return jax.tree_util.tree_unflatten(treedef, [_like(name, leaf, tensors[name]) for name, leaf in expected.items()])


def split_tensors(tensors: Tensors, prefixes: list[str]) -> tuple[list[Tensors], Tensors]:
    """The tensors under each prefix, without it, and all others."""
    parts = [
        {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        for prefix in prefixes
    ]
    return parts, {name: tensor for name, tensor in tensors.items() if not name.startswith(tuple(prefixes))}


def _plain(leaf: Array) -> np.ndarray:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf)


def _like(name: str, leaf: Array, tensor: np.ndarray) -> Array:
    plain = _plain(leaf)
    if tensor.shape != plain.shape or tensor.dtype != plain.dtype:
        raise RunError(
            f"{name} is {tensor.dtype}{list(tensor.shape)} in the checkpoint but {plain.dtype}{list(plain.shape)} here"
        )
    if not isinstance(leaf, jax.Array):
        return tensor
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(tensor))
    return jnp.asarray(tensor)


def _name(path: Tree) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
