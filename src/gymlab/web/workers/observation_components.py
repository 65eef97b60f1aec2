"""Components of an observation: path, name and bounds of each number or image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
from gymnasium import spaces

from gymlab.core.types import Space
from gymlab.media.episode_trace import LARGEST_ARRAY
from gymlab.networks.encoders import image_shape
from gymlab.web.workers.answers import ComponentFacts

Kind = Literal["number", "choice", "picture", "many"]
Elements = spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary


@dataclass(frozen=True)
class Component:
    """One number of an observation, or one picture."""

    path: tuple[str | int, ...]  # into the observation as JSON
    name: str
    kind: Kind
    low: float | None = None  # None: no bound
    high: float | None = None
    back: int | None = None  # of a stack: so many steps ago

    def as_json(self) -> ComponentFacts:
        return cast("ComponentFacts", vars(self))


def components(space: Space, labels: Sequence[str] = (), stack: int = 1) -> list[Component]:
    """All parts in order; `labels` are used where there is one for each, or for each of a stack's frames."""
    parts = list(_parts(space, (), ""))
    count = len(parts)
    frame = len(parts) // stack
    if stack > 1 and count == stack * frame and all(part.kind == "number" for part in parts):
        named = labels if len(labels) == frame else [f"[{i}]" for i in range(frame)]
        return [replace(p, name=named[i % frame], back=stack - 1 - i // frame) for i, p in enumerate(parts)]
    if len(labels) == count:
        return [replace(part, name=label) for part, label in zip(parts, labels, strict=True)]
    return parts


def _parts(space: Space, path: tuple[str | int, ...], name: str) -> Iterator[Component]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in inner:
            yield from _parts(part, (*path, key), f"{name}.{key}" if name else str(key))
    elif isinstance(space, spaces.Discrete):
        yield Component(path, name or "choice", "choice", float(space.start), float(space.start + space.n - 1))
    elif isinstance(space, spaces.Box) and image_shape(space) is not None:
        yield Component(path, name or "picture", "picture")
    elif isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        yield from _elements(space, path, name)
    else:
        yield Component(path, name or str(space), "many")


def _elements(space: Elements, path: tuple[str | int, ...], name: str) -> Iterator[Component]:
    if int(np.prod(space.shape)) > LARGEST_ARRAY:
        yield Component(path, name or "numbers", "many")
        return
    low, high = _bounds(space)
    for index in np.ndindex(space.shape):
        bounds = _finite(float(low[index])), _finite(float(high[index]))
        kind: Kind = "number" if isinstance(space, spaces.Box) else "choice"
        shown = f"{name}[{','.join(map(str, index))}]" if index else name or "number"
        yield Component((*path, *index), shown, kind, *bounds)


def _bounds(space: Elements) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    return np.zeros(space.shape), np.ones(space.shape)


def _finite(bound: float) -> float | None:
    """None for an infinite bound, which JSON cannot represent."""
    return float(f"{bound:.7g}") if abs(bound) < 1e30 else None
