"""Pendulum, as in gymnasium.envs.classic_control.pendulum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymlab.core.types import Array

MAX_SPEED = 8.0
MAX_TORQUE = 2.0
SECONDS = 0.05  # per step


class PendulumState(NamedTuple):
    """The angle stays within ±pi, where Gymnasium's grows without end: float32 would lose it in long episodes."""

    angle: Array
    speed: Array


def _wrap(angle: Array) -> Array:
    # A step turns by at most 0.4, so one turn back is enough.
    turn = 2 * math.pi
    return jnp.where(angle >= math.pi, angle - turn, jnp.where(angle < -math.pi, angle + turn, angle))


@dataclass(frozen=True)
class Pendulum:
    """A pendulum to be swung up and held there."""

    g: float = 10.0
    max_episode_steps: int = 200

    @property
    def observation_space(self) -> spaces.Box:
        high = np.array([1, 1, MAX_SPEED], np.float32)
        return spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> spaces.Box:
        return spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32)

    def reset(self, key: Array, n: int) -> PendulumState:
        unit = jax.random.uniform(key, (n, 2), minval=-1.0, maxval=1.0)
        return PendulumState(math.pi * unit[:, 0], unit[:, 1])

    def step(self, state: PendulumState, action: Array, key: Array) -> tuple[PendulumState, Array, Array]:
        del key
        angle, speed = state
        torque = jnp.clip(action[:, 0], -MAX_TORQUE, MAX_TORQUE)
        cost = jnp.square(angle) + 0.1 * jnp.square(speed) + 0.001 * jnp.square(torque)
        speed = jnp.clip(speed + (1.5 * self.g * jnp.sin(angle) + 3.0 * torque) * SECONDS, -MAX_SPEED, MAX_SPEED)
        after = PendulumState(_wrap(angle + speed * SECONDS), speed)
        return after, -cost, jnp.zeros(angle.shape, bool)

    def observe(self, state: PendulumState) -> Array:
        return jnp.stack((jnp.cos(state.angle), jnp.sin(state.angle), state.speed), axis=-1)

    def action_mask(self, state: PendulumState) -> None:
        del state
