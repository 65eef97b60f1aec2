"""CartPole, as in gymnasium.envs.classic_control.cartpole."""

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
POLE_MASS = 0.1
TOTAL_MASS = 1.0 + POLE_MASS
HALF_LENGTH = 0.5
FORCE = 10.0
SECONDS = 0.02  # per step
MAX_X = 2.4
MAX_ANGLE = 12 * 2 * math.pi / 360


class CartPoleState(NamedTuple):
    """Separate columns: XLA's CPU code is faster for them than for one (N, 4) array."""

    x: Array
    x_dot: Array
    angle: Array
    angle_dot: Array


@dataclass(frozen=True)
class CartPole:
    """A pole on a cart that is pushed left or right."""

    sutton_barto_reward: bool = False
    max_episode_steps: int = 500

    @property
    def observation_space(self) -> spaces.Box:
        high = np.array([2 * MAX_X, np.inf, 2 * MAX_ANGLE, np.inf], np.float32)
        return spaces.Box(-high, high, dtype=np.float32)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(2)

    def reset(self, key: Array, n: int) -> CartPoleState:
        return CartPoleState(*jax.random.uniform(key, (n, 4), minval=-0.05, maxval=0.05).T)

    def step(self, state: CartPoleState, action: Array, key: Array) -> tuple[CartPoleState, Array, Array]:
        del key
        cos = jnp.cos(state.angle)
        sin = jnp.sin(state.angle)
        force = jnp.where(action == 1, FORCE, -FORCE)
        push = (force + POLE_MASS * HALF_LENGTH * jnp.square(state.angle_dot) * sin) / TOTAL_MASS
        leverage = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * jnp.square(cos) / TOTAL_MASS)
        angle_acc = (GRAVITY * sin - cos * push) / leverage
        x_acc = push - POLE_MASS * HALF_LENGTH * angle_acc * cos / TOTAL_MASS
        after = CartPoleState(
            state.x + SECONDS * state.x_dot,
            state.x_dot + SECONDS * x_acc,
            state.angle + SECONDS * state.angle_dot,
            state.angle_dot + SECONDS * angle_acc,
        )
        terminated = (jnp.abs(after.x) > MAX_X) | (jnp.abs(after.angle) > MAX_ANGLE)
        reward = jnp.where(terminated, -1.0, 0.0) if self.sutton_barto_reward else jnp.ones_like(after.x)
        return after, reward, terminated

    def observe(self, state: CartPoleState) -> Array:
        return jnp.stack(state, axis=-1)

    def action_mask(self, state: CartPoleState) -> None:
        del state
