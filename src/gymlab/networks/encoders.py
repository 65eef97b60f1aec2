"""From observations to a flat feature vector, by space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Array, Tree
from gymlab.networks.module import Module, static


def feature_count(space: Any) -> int:
    """How many numbers `encode` gives for one observation."""
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape))
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape))
    if isinstance(space, spaces.Dict):
        return sum(feature_count(part) for part in space.spaces.values())
    if isinstance(space, spaces.Tuple):
        return sum(feature_count(part) for part in space.spaces)
    raise UserError(
        f"observation space {type(space).__name__} is not supported: use Box, Discrete, MultiDiscrete, MultiBinary, "
        "Dict or Tuple (a wrapper can convert it)"
    )


def encode(space: Any, obs: Tree) -> Array:
    """(..., feature_count): numbers as they are, bytes scaled to [0, 1], choices as one-hot vectors."""
    if isinstance(space, spaces.Dict):
        return jnp.concatenate([encode(part, obs[name]) for name, part in space.spaces.items()], -1)
    if isinstance(space, spaces.Tuple):
        return jnp.concatenate([encode(part, obs[i]) for i, part in enumerate(space.spaces)], -1)
    if isinstance(space, spaces.Discrete):
        return jax.nn.one_hot(obs - int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        sizes = space.nvec.ravel()
        starts = space.start.ravel()
        flat = _flatten(obs, len(space.shape))
        hot = [jax.nn.one_hot(flat[..., i] - int(starts[i]), int(size)) for i, size in enumerate(sizes)]
        return jnp.concatenate(hot, -1)
    flat = _flatten(obs, len(space.shape))
    return flat.astype(jnp.float32) / 255.0 if space.dtype == np.uint8 else flat.astype(jnp.float32)


class Flatten(Module):
    """The default encoder. One of a user's own has the same shape: `Encoder(key, space)`, `size`, and a call."""

    size: int = static()
    space: Any = static()

    def __init__(self, key: Array, space: Any) -> None:
        del key
        self.size = feature_count(space)
        self.space = space

    def __call__(self, obs: Tree) -> Array:
        return encode(self.space, obs)


MakeEncoder = Callable[[Array, Any], Any]  # (key, observation space) -> a module with `size`


def _flatten(array: Array, event_axes: int) -> Array:
    lead = array.shape[: array.ndim - event_axes]
    return array.reshape(*lead, -1)
