"""Bandit, as in gymlab.envs.games.bandit."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from gymnasium import spaces

from gymlab.core.types import Array
from gymlab.envs.games.bandit import EPISODE_STEPS, Arms


@dataclass(frozen=True)
class Bandit(Arms):
    """The state is each env's own arm means, (N, n_arms): they differ once they drift."""

    max_episode_steps: int = EPISODE_STEPS

    @property
    def observation_space(self) -> spaces.Discrete:
        return spaces.Discrete(1)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(self.n_arms)

    def reset(self, key: Array, n: int) -> Array:
        del key
        return jnp.broadcast_to(jnp.asarray(self.means(), jnp.float32), (n, self.n_arms))

    def step(self, state: Array, action: Array, key: Array) -> tuple[Array, Array, Array]:
        mean = jnp.take_along_axis(state, action[:, None], axis=1)[:, 0]
        if self.drift:
            key, drift_key = jax.random.split(key)
            state = state + self.drift * jax.random.normal(drift_key, state.shape)
        reward = mean + self.noise * jax.random.normal(key, mean.shape)
        return state, reward, jnp.zeros(mean.shape, bool)

    def observe(self, state: Array) -> Array:
        return jnp.zeros(len(state), jnp.int32)

    def action_mask(self, state: Array) -> None:
        del state
