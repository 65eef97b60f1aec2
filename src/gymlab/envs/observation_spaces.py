"""Observation spaces: their leaves, encoding as numeric vectors (one-hot, scaled bytes), and appending numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gymnasium import spaces

from gymlab.core.arrays import namespace
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree

_CATEGORICAL = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


def map_leaves(space: Space, change: Callable[..., Array], *trees: Tree) -> Tree:
    """An observation made of `change(leaf space, array of each tree)` for every leaf of the space."""
    if isinstance(space, spaces.Dict):
        return {name: map_leaves(leaf, change, *(tree[name] for tree in trees)) for name, leaf in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map_leaves(leaf, change, *(tree[i] for tree in trees)) for i, leaf in enumerate(space.spaces))
    return change(space, *trees)


def map_spaces(space: Space, change: Callable[[Space], Space]) -> Space:
    """The space with `change(leaf space)` for every leaf of it."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: map_spaces(inner, change) for name, inner in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([map_spaces(inner, change) for inner in space.spaces])
    return change(space)


def leaf_spaces(space: Space) -> list[Space]:
    """The leaves of a space, in order."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return [leaf for part in inner for leaf in leaf_spaces(part)]
    return [space]


def leaf_values(space: Space, obs: Tree) -> list[Array]:
    """The arrays of an observation, in the order of `leaf_spaces`."""
    if isinstance(space, spaces.Dict):
        return [leaf for name, part in space.spaces.items() for leaf in leaf_values(part, obs[name])]
    if isinstance(space, spaces.Tuple):
        return [leaf for i, part in enumerate(space.spaces) for leaf in leaf_values(part, obs[i])]
    return [obs]


def is_categorical(space: Space) -> bool:
    """Whether its values are categories rather than quantities."""
    return isinstance(space, _CATEGORICAL)


def is_supported_leaf(space: Space) -> bool:
    """Whether a policy can be shown values of a space that has no parts."""
    return isinstance(space, (spaces.Box, *_CATEGORICAL))


def vector_space(space: Space) -> spaces.Box:
    """The space of what `to_vector` returns: a vector, with the leaf's own bounds where it is a Box."""
    if isinstance(space, spaces.Box):
        low, high = (np.ravel(bound).astype(np.float32) for bound in (space.low, space.high))
        if space.dtype == np.uint8:
            low, high = low / np.float32(255), high / np.float32(255)
        return spaces.Box(low, high, dtype=np.float32)
    if isinstance(space, spaces.Discrete):
        return spaces.Box(0.0, 1.0, (int(space.n),), np.float32)
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.Box(0.0, 1.0, (int(space.nvec.sum()),), np.float32)
    if isinstance(space, spaces.MultiBinary):
        return spaces.Box(0.0, 1.0, (int(np.prod(space.shape)),), np.float32)
    raise UserError(f"{space} has no numbers: use Box, Discrete, MultiDiscrete or MultiBinary")


def to_vector(space: Space, value: Array) -> Array:
    """(N, d) float32: categories one-hot, bytes scaled to [0, 1], anything else as it is. `value` is (N, ...)."""
    xp = namespace(value)
    if isinstance(space, spaces.Discrete):
        return _one_hot(value - int(space.start), int(space.n))
    flat = value.reshape(value.shape[0], -1)
    if isinstance(space, spaces.MultiDiscrete):
        sizes = space.nvec.ravel()
        starts = space.start.ravel()
        return xp.concatenate([_one_hot(flat[:, i] - int(starts[i]), int(size)) for i, size in enumerate(sizes)], -1)
    flat = flat.astype(np.float32)
    return flat / np.float32(255) if space.dtype == np.uint8 else flat


def append_space(space: Space, name: str, extra: spaces.Box) -> Space:
    """The space with numbers appended: at the end of a vector, else as the entry `name` of a Dict."""
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return spaces.Box(
            np.concatenate([space.low, extra.low]).astype(np.float32),
            np.concatenate([space.high, extra.high]).astype(np.float32),
            dtype=np.float32,
        )
    inner = space.spaces if isinstance(space, spaces.Dict) else {"obs": space}
    if name in inner:
        raise UserError(f"the observation has an entry '{name}' already: {space}")
    return spaces.Dict({**inner, name: extra})


def append_numbers(obs: Tree, name: str, extra: Array, *, vector: bool) -> Tree:
    """An observation of the space that `append_space` returned; `vector`: whether the space before was a vector."""
    if vector:
        return namespace(extra).concatenate([obs.astype(np.float32), extra], -1)
    return {**(obs if isinstance(obs, dict) else {"obs": obs}), name: extra}


def is_vector(space: Space) -> bool:
    return isinstance(space, spaces.Box) and len(space.shape) == 1


def _one_hot(index: Array, n: int) -> Array:
    xp = namespace(index)
    return (index[:, None] == xp.arange(n)).astype(np.float32)
