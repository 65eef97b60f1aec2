"""CartPole in NumPy, many at a time: bit for bit what gymnasium.envs.classic_control.cartpole computes one at a time.

The same operations in the same order on the same float64 numbers. Only the overhead of the envs' Python calls is saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gymlab.core.types import Array
from gymlab.envs.ports.cartpole import FORCE, GRAVITY, HALF_LENGTH, MAX_ANGLE, MAX_X, POLE_MASS, SECONDS, TOTAL_MASS

POLE_MASS_LENGTH = POLE_MASS * HALF_LENGTH


@dataclass(frozen=True)
class CartPoleNumpy:
    """States are (4, N): position, velocity, angle, angular velocity."""

    sutton_barto_reward: bool = False

    def initial_state(self, random: np.random.Generator) -> Array:
        return random.uniform(low=-0.05, high=0.05, size=(4,))

    def step(self, state: Array, action: Array) -> tuple[Array, Array, Array]:
        x, x_dot, angle, angle_dot = state
        cos = np.cos(angle)
        sin = np.sin(angle)
        force = np.where(action == 1, FORCE, -FORCE)
        push = (force + POLE_MASS_LENGTH * np.square(angle_dot) * sin) / TOTAL_MASS
        leverage = HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * np.square(cos) / TOTAL_MASS)
        angle_acc = (GRAVITY * sin - cos * push) / leverage
        x_acc = push - POLE_MASS_LENGTH * angle_acc * cos / TOTAL_MASS
        after = state + SECONDS * np.stack([x_dot, x_acc, angle_dot, angle_acc])
        terminated = (np.abs(after[0]) > MAX_X) | (np.abs(after[2]) > MAX_ANGLE)
        reward = np.where(terminated, -1.0, 0.0) if self.sutton_barto_reward else np.ones_like(x)
        return after, reward, terminated

    def observe(self, state: Array) -> Array:
        return state.T

    def state_of(self, env: Any) -> Array:
        return env.unwrapped.state
