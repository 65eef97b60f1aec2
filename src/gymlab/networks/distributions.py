"""Action distributions (Categorical, Bernoulli, Gaussian), the one each action space gets, and actions in env form."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, Protocol, cast

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymlab.core.arrays import namespace
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_FORBIDDEN = -1e9  # finite, so that a fully masked row gives no NaN


class Distribution(Protocol):
    """What algorithms ask of a policy's output. `log_prob`, `entropy` and `kl` drop the action axes."""

    def sample(self, key: Array) -> Array: ...
    def mode(self) -> Array: ...
    def log_prob(self, action: Array) -> Array: ...
    def entropy(self) -> Array: ...
    def kl(self, other: Distribution) -> Array: ...


class Categorical(NamedTuple):
    """One choice of n."""

    log_p: Array  # (..., n) normalised

    @classmethod
    def of(cls, logits: Array, mask: Array | None = None) -> Categorical:
        if mask is not None:
            logits = jnp.where(mask, logits, _FORBIDDEN)
        return cls(jax.nn.log_softmax(logits))

    def sample(self, key: Array) -> Array:
        return jax.random.categorical(key, self.log_p)

    def mode(self) -> Array:
        return jnp.argmax(self.log_p, -1)

    def log_prob(self, action: Array) -> Array:
        return jnp.take_along_axis(self.log_p, action[..., None].astype(jnp.int32), -1)[..., 0]

    def entropy(self) -> Array:
        return -jnp.sum(jnp.exp(self.log_p) * self.log_p, -1)

    def kl(self, other: Distribution) -> Array:
        assert isinstance(other, Categorical)
        return jnp.sum(jnp.exp(self.log_p) * (self.log_p - other.log_p), -1)


def total(parts: Iterable[Array]) -> Array:
    """Their sum."""
    return cast("Array", sum(parts))


class MultiCategorical(NamedTuple):
    """Independent choices, one per component: log-probabilities add up."""

    parts: tuple[Categorical, ...]

    def sample(self, key: Array) -> Array:
        keys = jax.random.split(key, len(self.parts))
        return jnp.stack([part.sample(k) for part, k in zip(self.parts, keys, strict=True)], -1)

    def mode(self) -> Array:
        return jnp.stack([part.mode() for part in self.parts], -1)

    def log_prob(self, action: Array) -> Array:
        return total(part.log_prob(action[..., i]) for i, part in enumerate(self.parts))

    def entropy(self) -> Array:
        return total(part.entropy() for part in self.parts)

    def kl(self, other: Distribution) -> Array:
        assert isinstance(other, MultiCategorical)
        return total(mine.kl(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True))


class Bernoulli(NamedTuple):
    """Independent switches."""

    logits: Array  # (..., k)

    def sample(self, key: Array) -> Array:
        return jax.random.bernoulli(key, jax.nn.sigmoid(self.logits)).astype(jnp.int8)

    def mode(self) -> Array:
        return (self.logits > 0).astype(jnp.int8)

    def log_prob(self, action: Array) -> Array:
        return jnp.sum(jnp.where(action > 0, -jax.nn.softplus(-self.logits), -jax.nn.softplus(self.logits)), -1)

    def entropy(self) -> Array:
        p = jax.nn.sigmoid(self.logits)
        return jnp.sum(p * jax.nn.softplus(-self.logits) + (1 - p) * jax.nn.softplus(self.logits), -1)

    def kl(self, other: Distribution) -> Array:
        assert isinstance(other, Bernoulli)
        p = jax.nn.sigmoid(self.logits)
        on = jax.nn.softplus(-other.logits) - jax.nn.softplus(-self.logits)
        off = jax.nn.softplus(other.logits) - jax.nn.softplus(self.logits)
        return jnp.sum(p * on + (1 - p) * off, -1)


class Gaussian(NamedTuple):
    """Independent normal components. Actions are never clipped here: what was sampled is what is scored."""

    mean: Array  # (..., d)
    log_std: Array  # (..., d) or (d,)

    def sample(self, key: Array) -> Array:
        return self.mean + jnp.exp(self.log_std) * jax.random.normal(key, self.mean.shape)

    def mode(self) -> Array:
        return self.mean

    def log_prob(self, action: Array) -> Array:
        z = (action - self.mean) * jnp.exp(-self.log_std)
        return jnp.sum(-0.5 * z**2 - self.log_std - _HALF_LOG_2PI, -1)

    def entropy(self) -> Array:
        return jnp.sum(jnp.broadcast_to(self.log_std, self.mean.shape) + 0.5 + _HALF_LOG_2PI, -1)

    def kl(self, other: Distribution) -> Array:
        assert isinstance(other, Gaussian)
        gap = (self.mean - other.mean) * jnp.exp(-other.log_std)
        scale = jnp.exp(2 * (self.log_std - other.log_std))
        return jnp.sum(0.5 * (scale + gap**2 - 1) + other.log_std - self.log_std, -1)


def output_count(space: Space) -> int:
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


def action_distribution(space: Space, outputs: Array, log_std: Array | None, mask: Array | None) -> Distribution:
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


def to_env_action(space: Space, action: Array) -> Array:
    """The policy's action as the env takes it: choices moved to the space's start, numbers clipped, rounded
    where the space is of whole ones, and shaped.

    The policy's own action is what is stored and scored; this one is only sent.
    """
    xp = namespace(action)
    if isinstance(space, spaces.Box):
        shaped = action.reshape(*action.shape[:-1], *space.shape)
        clipped = xp.clip(shaped, space.low, space.high)
        whole = np.issubdtype(space.dtype, np.integer)
        return (xp.round(clipped) if whole else clipped).astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return action + int(space.start) if space.start else action
    if isinstance(space, spaces.MultiDiscrete):
        shaped = action.reshape(*action.shape[:-1], *space.shape)
        return shaped + space.start if space.start.any() else shaped
    return action.reshape(*action.shape[:-1], *(space.shape or ()))
