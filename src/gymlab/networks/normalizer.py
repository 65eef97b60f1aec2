"""Running statistics of observations and returns.

They start as the identity, are frozen during a rollout and its update, and move on afterwards from the rollout's raw
values; evaluation uses the snapshot's, frozen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import lax

from gymlab.core.types import Array, Masked, Rollout, Space, Tree

_EPS = 1e-8


class RunningMoments(NamedTuple):
    count: Array  # type: ignore[assignment]  # (), a key of checkpoints; hides tuple.count
    mean: Array  # (*event)
    var: Array  # (*event)


class NormalizerState(NamedTuple):
    """A value: part of the state of training and of every saved policy. () where a part is off."""

    obs: Tree  # RunningMoments for each float Box of the observation space, () for anything else
    reward: Tree  # RunningMoments of the discounted return, or ()


def initial_moments(shape: tuple[int, ...]) -> RunningMoments:
    return RunningMoments(jnp.zeros((), jnp.float32), jnp.zeros(shape, jnp.float32), jnp.ones(shape, jnp.float32))


def merge_moments(moments: RunningMoments, batch: Array) -> RunningMoments:
    """Moments with a batch (any leading axes) added: Chan's parallel formula."""
    lead = tuple(range(batch.ndim - moments.mean.ndim))
    size = float(np.prod([batch.shape[axis] for axis in lead]))
    batch = batch.astype(jnp.float32)
    mean = batch.mean(lead)
    var = batch.var(lead)
    total = moments.count + size
    gap = mean - moments.mean
    weight = size / total
    # `count` is 0 before the first batch, so the identity's variance of 1 leaves no trace.
    spread = (moments.var * moments.count + var * size) / total + gap**2 * (moments.count / total) * weight
    return RunningMoments(total, moments.mean + gap * weight, spread)


class Normalizer:
    """Normalises as the recipe's `normalize:` block says, over one observation space."""

    def __init__(self, space: Space, *, obs: bool, reward: bool, clip: float) -> None:
        self.space = space
        self.obs = obs
        self.reward = reward
        self.clip = clip

    def init(self) -> NormalizerState:
        obs = _by_space(self.space, lambda space: initial_moments(space.shape), ()) if self.obs else ()
        return NormalizerState(obs, initial_moments(()) if self.reward else ())

    def observe(self, normaliser: NormalizerState, obs: Tree) -> Tree:
        """Observations as the network sees them."""
        if not self.obs:
            return obs
        if isinstance(obs, Masked):
            return Masked(self.observe(normaliser, obs.obs), obs.mask)

        def one(moments: RunningMoments, x: Array) -> Array:
            scaled = (x - moments.mean) / jnp.sqrt(moments.var + _EPS)
            return jnp.clip(scaled, -self.clip, self.clip)

        return _by_space(self.space, lambda _, moments, x: one(moments, x), None, normaliser.obs, obs)

    def normalize_rollout(self, normaliser: NormalizerState, rollout: Rollout) -> Rollout:
        """The rollout with normalised observations and training rewards."""
        reward = rollout.train_reward
        if self.reward:
            reward = reward / jnp.sqrt(normaliser.reward.var + _EPS)
            reward = jnp.clip(reward, -self.clip, self.clip)
        return rollout._replace(
            obs=self.observe(normaliser, rollout.obs),
            successor=self.observe(normaliser, rollout.successor),
            last_obs=self.observe(normaliser, rollout.last_obs),
            train_reward=reward,
        )

    def learn(
        self, normaliser: NormalizerState, rollout: Rollout, discounted: Array, gamma: Array
    ) -> tuple[NormalizerState, Array]:
        """Statistics after a rollout, and the running discounted return of each env."""
        obs = normaliser.obs
        reward = normaliser.reward
        if self.obs:
            raw = rollout.obs.obs if isinstance(rollout.obs, Masked) else rollout.obs
            obs = _by_space(self.space, lambda _, moments, x: merge_moments(moments, x), (), obs, raw)
        if self.reward:
            discounted, sums = _discounted(discounted, rollout, gamma)
            reward = merge_moments(reward, sums)
        return NormalizerState(obs, reward), discounted


def _discounted(running: Array, rollout: Rollout, gamma: Array) -> tuple[Array, Array]:
    """Forward discounted sums of reward, restarted where an episode ends (what VecNormalize divides by)."""

    def step(running: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, fresh = inputs
        running = gamma * running + reward
        return jnp.where(fresh, 0.0, running), running

    return lax.scan(step, running, (rollout.train_reward, rollout.fresh))


def _by_space(space: Space, on_floats: Callable[..., Tree], otherwise: tuple[()] | None, *trees: Tree) -> Tree:
    """Apply to each float Box of a space; `otherwise` elsewhere, or (None) the last tree's own value."""
    if isinstance(space, spaces.Dict):
        return {
            name: _by_space(part, on_floats, otherwise, *(tree[name] for tree in trees))
            for name, part in space.spaces.items()
        }
    if isinstance(space, spaces.Tuple):
        return tuple(
            _by_space(part, on_floats, otherwise, *(tree[i] for tree in trees)) for i, part in enumerate(space.spaces)
        )
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return on_floats(space, *trees)
    return trees[-1] if otherwise is None else otherwise
