"""MountainCar, as in gymnasium.envs.classic_control.mountain_car; the continuous one shares its track."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from gymlab.core.types import Array

MIN_POSITION = -1.2
MAX_POSITION = 0.6
MAX_SPEED = 0.07
GRAVITY = 0.0025
FORCE = 0.001
GOAL = 0.5


class MountainCarState(NamedTuple):
    """Where the car is, and how fast per step."""

    position: Array
    velocity: Array


def track_space() -> spaces.Box:
    """What both cars observe."""
    return spaces.Box(
        np.array([MIN_POSITION, -MAX_SPEED], np.float32),
        np.array([MAX_POSITION, MAX_SPEED], np.float32),
        dtype=np.float32,
    )


def track_start(key: Array, n: int) -> MountainCarState:
    """At rest near the bottom of the valley."""
    position = jax.random.uniform(key, (n,), minval=-0.6, maxval=-0.4)
    return MountainCarState(position, jnp.zeros_like(position))


def roll(state: MountainCarState, push: Array) -> MountainCarState:
    """One step along the track: the wall on the left takes all speed, the one on the right none."""
    velocity = state.velocity + push - GRAVITY * jnp.cos(3 * state.position)
    velocity = jnp.clip(velocity, -MAX_SPEED, MAX_SPEED)
    position = jnp.clip(state.position + velocity, MIN_POSITION, MAX_POSITION)
    return MountainCarState(position, jnp.where((position <= MIN_POSITION) & (velocity < 0), 0.0, velocity))


@dataclass(frozen=True)
class MountainCar:
    """A weak car in a valley."""

    goal_velocity: float = 0.0
    max_episode_steps: int = 200

    @property
    def observation_space(self) -> spaces.Box:
        return track_space()

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(3)

    def reset(self, key: Array, n: int) -> MountainCarState:
        return track_start(key, n)

    def step(self, state: MountainCarState, action: Array, key: Array) -> tuple[MountainCarState, Array, Array]:
        del key
        after = roll(state, (action - 1) * FORCE)
        terminated = (after.position >= GOAL) & (after.velocity >= self.goal_velocity)
        return after, jnp.full_like(after.position, -1.0), terminated

    def observe(self, state: MountainCarState) -> Array:
        return jnp.stack(state, axis=-1)

    def action_mask(self, state: MountainCarState) -> None:
        del state
