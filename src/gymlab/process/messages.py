"""Messages between processes: dataclasses, each as one line of JSON that begins with the name of its class."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, TypeVar

from gymlab.core.types import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

M = TypeVar("M")


def encode(message: DataclassInstance) -> str:
    """A dataclass as one line, without the newline."""
    return json.dumps({"message": type(message).__name__, **asdict(message)})


def decode(line: str, *types: type[M]) -> M:
    """The inverse of `encode`; ValueError for a message of another type."""
    values: dict[str, Json] = json.loads(line)
    name = values.pop("message", None)
    for kind in types:
        if kind.__name__ == name:
            # JSON knows no tuples.
            tuples = {field.name for field in fields(kind) if str(field.type).startswith("tuple")}  # type: ignore[arg-type]
            lists = {key: value for key, value in values.items() if key in tuples and isinstance(value, list)}
            return kind(**values | {key: tuple(value) for key, value in lists.items()})
    raise ValueError(f"unknown message {name!r}: expected one of {', '.join(kind.__name__ for kind in types)}")
