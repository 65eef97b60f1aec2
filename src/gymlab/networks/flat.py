"""A network as a flat dict of named arrays: fast to hand to compiled code, readable in a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from gymlab.core.jax_keys import run_key
from gymlab.core.types import Array, Tree
from gymlab.networks.module import Module

Params = dict[str, Array]  # "policy_trunk.layers.0.weight": (in, out)


class FlatNetwork:
    """Builds a network's parameters as a dict, and the network back from them while tracing."""

    def __init__(self, build: Callable[[Array], Module]) -> None:
        self._build = build
        shapes = jax.eval_shape(build, run_key(0))
        paths, self._treedef = jax.tree_util.tree_flatten_with_path(shapes)
        self._names = [_name(path) for path, _ in paths]
        self.shapes: Params = {_name(path): shape for path, shape in paths}  # of the parameters, without values

    def init(self, key: Array) -> Params:
        leaves = jax.tree_util.tree_leaves(self._build(key))
        return dict(zip(self._names, leaves, strict=True))

    def __call__(self, params: Params) -> Any:
        return jax.tree_util.tree_unflatten(self._treedef, [params[name] for name in self._names])


def _name(path: Tree) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".").lstrip(".")
