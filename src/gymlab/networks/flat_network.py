"""Networks as flat dicts of named parameters: the form in which they are trained, stored and sent between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from gymlab.core.errors import UserError
from gymlab.core.jax_keys import run_key
from gymlab.core.types import Array, Tree

Params = dict[str, Array]  # "policy_trunk.layers.0.weight": (in, out)


class FlatNetwork:
    """Builds an Equinox module's parameters as a dict, and the module back from them while tracing.

    Parameters are its arrays of floats. All other leaves are constants: an activation function, a Python number, a
    NumPy array of integers.
    """

    def __init__(self, build: Callable[[Array], eqx.Module]) -> None:
        self._build = build
        self._constants: dict[str, Any] = {}
        self._names: list[str] = []
        self.shapes: Params = jax.eval_shape(self._flatten, run_key(0))  # of the parameters, without values

    def init(self, key: Array) -> Params:
        leaves = jax.tree_util.tree_leaves(self._build(key))
        return {name: leaf for name, leaf in zip(self._names, leaves, strict=True) if name not in self._constants}

    def __call__(self, params: Params) -> Any:
        constants = self._constants
        leaves = [constants[name] if name in constants else params[name] for name in self._names]
        return jax.tree_util.tree_unflatten(self._treedef, leaves)

    def _flatten(self, key: Array) -> Params:
        """Learn the module's structure while its parameters are traced."""
        leaves, self._treedef = jax.tree_util.tree_flatten_with_path(self._build(key))
        named = {_name(path): leaf for path, leaf in leaves}
        self._names = list(named)
        self._constants = {name: leaf for name, leaf in named.items() if not eqx.is_inexact_array(leaf)}
        for name, leaf in self._constants.items():
            if isinstance(leaf, jax.Array):
                raise UserError(
                    f"network: '{name}' is a JAX array of {leaf.dtype}, which gradients cannot change: make it a "
                    "NumPy array (then it is a constant)"
                )
        return {name: leaf for name, leaf in named.items() if name not in self._constants}


def _name(path: Tree) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".").lstrip(".")
