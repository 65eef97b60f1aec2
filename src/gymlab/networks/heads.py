"""From the policy network's last layer to an action distribution, by action space."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymlab.core.arrays import namespace
from gymlab.core.errors import UserError
from gymlab.core.types import Array
from gymlab.networks.distributions import Bernoulli, Categorical, Distribution, Gaussian, MultiCategorical


def output_count(space: Any) -> int:
    """How many numbers the policy network must give for this action space."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.MultiBinary | spaces.Box):
        return int(np.prod(space.shape))
    raise UserError(
        f"action space {type(space).__name__} is not supported: use Discrete, MultiDiscrete, MultiBinary or Box"
    )


def distribution(space: Any, outputs: Array, log_std: Array | None, mask: Array | None) -> Distribution:
    """The distribution of actions; `outputs` is (..., output_count)."""
    if isinstance(space, spaces.Discrete):
        return Categorical.of(outputs, mask)
    if isinstance(space, spaces.MultiDiscrete):
        edges = np.cumsum(space.nvec.ravel())[:-1]
        return MultiCategorical(tuple(Categorical.of(part) for part in jnp.split(outputs, edges, -1)))
    if isinstance(space, spaces.MultiBinary):
        return Bernoulli(outputs)
    assert log_std is not None
    return Gaussian(outputs, log_std)


def to_env(space: Any, action: Array) -> Array:
    """The policy's action as the env takes it: choices moved to the space's start, numbers clipped and shaped.

    The policy's own action is what is stored and scored; this one is only sent.
    """
    xp = namespace(action)
    if isinstance(space, spaces.Box):
        shaped = action.reshape(*action.shape[:-1], *space.shape)
        return xp.clip(shaped, space.low, space.high).astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return action + int(space.start) if space.start else action
    if isinstance(space, spaces.MultiDiscrete):
        shaped = action.reshape(*action.shape[:-1], *space.shape)
        return shaped + space.start if space.start.any() else shaped
    return action.reshape(*action.shape[:-1], *space.shape)
