"""Acrobot, as in gymnasium.envs.classic_control.acrobot, with the equations of the book."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymlab.core.types import Array

GRAVITY = 9.8
SECONDS = 0.2  # per step, in one Runge-Kutta step
MAX_SPEED_1 = 4 * math.pi
MAX_SPEED_2 = 9 * math.pi


class AcrobotState(NamedTuple):
    """Angles within ±pi, the second relative to the first."""

    angle_1: Array
    angle_2: Array
    speed_1: Array
    speed_2: Array


def _derivative(state: AcrobotState, torque: Array) -> AcrobotState:
    # Gymnasium's formula with both links 1 m, 1 kg, inertia 1, centre of mass in the middle; cos(x - pi/2) is sin(x).
    _, _, speed_1, speed_2 = state
    cos_2 = jnp.cos(state.angle_2)
    sin_2 = jnp.sin(state.angle_2)
    d1 = 3.5 + cos_2
    d2 = 1.25 + 0.5 * cos_2
    phi_2 = 0.5 * GRAVITY * jnp.sin(state.angle_1 + state.angle_2)
    phi_1 = -(0.5 * speed_2 + speed_1) * speed_2 * sin_2 + 1.5 * GRAVITY * jnp.sin(state.angle_1) + phi_2
    acc_2 = (torque + d2 / d1 * phi_1 - 0.5 * jnp.square(speed_1) * sin_2 - phi_2) / (1.25 - jnp.square(d2) / d1)
    acc_1 = -(d2 * acc_2 + phi_1) / d1
    return AcrobotState(speed_1, speed_2, acc_1, acc_2)


def _advance(state: AcrobotState, slope: AcrobotState, seconds: float) -> AcrobotState:
    return AcrobotState(*(value + seconds * change for value, change in zip(state, slope, strict=True)))


def _runge_kutta(state: AcrobotState, torque: Array) -> AcrobotState:
    k1 = _derivative(state, torque)
    k2 = _derivative(_advance(state, k1, SECONDS / 2), torque)
    k3 = _derivative(_advance(state, k2, SECONDS / 2), torque)
    k4 = _derivative(_advance(state, k3, SECONDS), torque)
    slope = AcrobotState(*(a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4, strict=True)))
    return _advance(state, slope, SECONDS / 6)


def _wrap(angle: Array) -> Array:
    return angle - 2 * math.pi * jnp.round(angle / (2 * math.pi))


@dataclass(frozen=True)
class Acrobot:
    """Two links hanging from a pivot, driven at the joint between them."""

    max_episode_steps: int = 500

    @property
    def observation_space(self) -> spaces.Box:
        high = np.array([1, 1, 1, 1, MAX_SPEED_1, MAX_SPEED_2], np.float32)
        return spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(3)

    def reset(self, key: Array, n: int) -> AcrobotState:
        return AcrobotState(*jax.random.uniform(key, (n, 4), minval=-0.1, maxval=0.1).T)

    def step(self, state: AcrobotState, action: Array, key: Array) -> tuple[AcrobotState, Array, Array]:
        del key
        after = _runge_kutta(state, (action - 1).astype(state.speed_1.dtype))
        after = AcrobotState(
            _wrap(after.angle_1),
            _wrap(after.angle_2),
            jnp.clip(after.speed_1, -MAX_SPEED_1, MAX_SPEED_1),
            jnp.clip(after.speed_2, -MAX_SPEED_2, MAX_SPEED_2),
        )
        terminated = -jnp.cos(after.angle_1) - jnp.cos(after.angle_2 + after.angle_1) > 1.0
        return after, jnp.where(terminated, 0.0, -1.0), terminated

    def observe(self, state: AcrobotState) -> Array:
        first = state.angle_1
        second = state.angle_2
        columns = (jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second), state.speed_1, state.speed_2)
        return jnp.stack(columns, axis=-1)

    def action_mask(self, state: AcrobotState) -> None:
        del state
