"""Network modules: dataclasses registered as JAX pytrees, and networks as flat dicts of named parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from jax.tree_util import GetAttrKey, register_pytree_with_keys

from gymlab.core.jax_keys import run_key
from gymlab.core.types import Array, Tree


def static() -> Any:
    """A field that is part of a network's structure, not of its numbers."""
    return dataclasses.field(metadata={"static": True})


class Module:
    """A subclass declares its fields as a dataclass does, and sets them in an `__init__` of its own.

    All but the static ones hold arrays, or what is made of them. Users' own encoders are Equinox modules: JAX makes no
    difference between the two.
    """

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(init=False, eq=False, repr=False)(cls)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        seen = [field.name for field in fields if not field.metadata.get("static")]
        fixed = [field.name for field in fields if field.metadata.get("static")]

        def flatten(module: Any) -> tuple[list[tuple[GetAttrKey, Any]], tuple[Any, ...]]:
            held = tuple(getattr(module, name) for name in fixed)
            return [(GetAttrKey(name), getattr(module, name)) for name in seen], held

        def unflatten(held: tuple[Any, ...], values: Any) -> Any:
            module = object.__new__(cls)
            module.__dict__.update(zip(fixed, held, strict=True))
            module.__dict__.update(zip(seen, values, strict=True))
            return module

        register_pytree_with_keys(cls, flatten, unflatten)


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
