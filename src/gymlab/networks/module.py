"""Networks as dataclasses that JAX sees into, like Equinox's, but without an import of 0.12 s at every start."""

from __future__ import annotations

import dataclasses
from typing import Any

from jax.tree_util import GetAttrKey, register_pytree_with_keys


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
