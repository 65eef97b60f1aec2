"""Empty observation and action arrays of a space, with any leading axes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym

from gymlab.core.types import Array, Masked, Space, Spaces, Tree


def zero_obs(spaces: Spaces, lead: tuple[int, ...]) -> Tree:
    """Zeros of the shape and type in which observations of these spaces arrive."""
    obs = _blank(spaces.observation, lead)
    if not spaces.masked:
        return obs
    assert isinstance(spaces.action, gym.Discrete), "only these are masked"
    return Masked(obs, jnp.zeros((*lead, int(spaces.action.n)), bool))


def zero_action(space: Space, lead: tuple[int, ...]) -> Array:
    """Zeros of the shape and type in which a policy gives actions of this space."""
    if isinstance(space, gym.Box):
        return jnp.zeros((*lead, int(np.prod(space.shape))), jnp.float32)
    if isinstance(space, gym.Discrete):
        return jnp.zeros(lead, jnp.int32)
    kind = jnp.int8 if isinstance(space, gym.MultiBinary) else jnp.int32
    return jnp.zeros((*lead, int(np.prod(space.shape or ()))), kind)


def _blank(space: Space, lead: tuple[int, ...]) -> Tree:
    if isinstance(space, gym.Dict):
        return {name: _blank(part, lead) for name, part in space.spaces.items()}
    if isinstance(space, gym.Tuple):
        return tuple(_blank(part, lead) for part in space.spaces)
    if isinstance(space, gym.Discrete):
        return jnp.zeros(lead, jnp.int32)
    if isinstance(space, gym.MultiDiscrete):
        return jnp.zeros((*lead, *space.shape), jnp.int32)
    if isinstance(space, gym.MultiBinary):
        return jnp.zeros((*lead, *space.shape), jnp.int8)
    dtype = np.float32 if space.dtype == np.float64 else space.dtype
    return jnp.zeros((*lead, *(space.shape or ())), dtype)
