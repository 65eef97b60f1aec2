"""MountainCarContinuous, as in gymnasium.envs.classic_control.continuous_mountain_car."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymlab.core.types import Array
from gymlab.envs.ports.mountain_car import MountainCarState, roll, track_space, track_start

POWER = 0.0015
GOAL = 0.45


@dataclass(frozen=True)
class MountainCarContinuous:
    """A weak car in a valley, with a throttle."""

    goal_velocity: float = 0.0
    max_episode_steps: int = 999

    @property
    def observation_space(self) -> spaces.Box:
        return track_space()

    @property
    def action_space(self) -> spaces.Box:
        return spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, key: Array, n: int) -> MountainCarState:
        return track_start(key, n)

    def step(self, state: MountainCarState, action: Array, key: Array) -> tuple[MountainCarState, Array, Array]:
        del key
        throttle = action[:, 0]
        after = roll(state, jnp.clip(throttle, -1.0, 1.0) * POWER)
        terminated = (after.position >= GOAL) & (after.velocity >= self.goal_velocity)
        return after, jnp.where(terminated, 100.0, 0.0) - 0.1 * jnp.square(throttle), terminated

    def observe(self, state: MountainCarState) -> Array:
        return jnp.stack(state, axis=-1)

    def action_mask(self, state: MountainCarState) -> None:
        del state
