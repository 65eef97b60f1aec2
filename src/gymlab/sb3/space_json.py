"""Gymnasium spaces as JSON, so that a saved model can act without its env."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from gymlab.core.errors import RunError
from gymlab.core.types import Spaces

_MOST_NUMBERS = 2**26  # of one space: a file from strangers must not fill the memory
_DTYPES = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)


def spaces_to_json(found: Spaces) -> dict[str, Any]:
    """What a policy must know of its env."""
    return {
        "observation": _to_json(found.observation),
        "action": _to_json(found.action),
        "masked": found.masked,
        "max_episode_steps": found.max_episode_steps,
    }


def spaces_from_json(data: Any) -> Spaces:
    """The inverse; RunError where the data are no spaces."""
    try:
        return Spaces(
            _from_json(data["observation"]),
            _from_json(data["action"]),
            bool(data["masked"]),
            int(data["max_episode_steps"]),
        )
    except (KeyError, TypeError, ValueError, AssertionError, OverflowError, RecursionError) as error:
        raise RunError(f"the file's spaces are damaged: {error}") from error


def _to_json(space: Any) -> dict[str, Any]:
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {name: _to_json(part) for name, part in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [_to_json(part) for part in space.spaces]}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "shape": list(space.shape)}
    return {
        "type": "Box",
        "shape": list(space.shape),
        "dtype": str(space.dtype),
        "low": _bound(space.low),
        "high": _bound(space.high),
    }


def _bound(array: np.ndarray) -> Any:
    """One number where all are equal."""
    same = array.size > 0 and (array == array.flat[0]).all()
    return array.flat[0].item() if same else array.tolist()


def _from_json(data: Any) -> Any:
    kind = data["type"]
    if kind == "Dict":
        return spaces.Dict({str(name): _from_json(part) for name, part in data["spaces"].items()})
    if kind == "Tuple":
        return spaces.Tuple([_from_json(part) for part in data["spaces"]])
    if kind == "Discrete":
        return spaces.Discrete(_small(int(data["n"])), start=int(data["start"]))
    if kind == "MultiDiscrete":
        nvec = np.asarray(data["nvec"], np.int64)
        _small(int(nvec.sum()))
        return spaces.MultiDiscrete(nvec, start=np.asarray(data["start"], np.int64))
    shape = tuple(int(size) for size in data["shape"])
    _small(math.prod(shape))
    if kind == "MultiBinary":
        return spaces.MultiBinary(shape if len(shape) != 1 else shape[0])
    if kind != "Box" or data["dtype"] not in _DTYPES:
        raise ValueError(f"unknown space {kind!r} of {data.get('dtype')!r}")
    low, high = (np.broadcast_to(np.asarray(data[side], data["dtype"]), shape).copy() for side in ("low", "high"))
    return spaces.Box(low, high, shape, np.dtype(data["dtype"]).type)


def _small(numbers: int) -> int:
    if not 0 <= numbers <= _MOST_NUMBERS:
        raise ValueError(f"a space of {numbers} numbers")
    return numbers
