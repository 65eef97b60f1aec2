"""Protocols of ports: batched pure functions over an env state, without time limit or autoreset."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gymlab.core.types import Array, Space, Tree
from gymlab.envs.gymnasium_types import Env


class JaxEnv(Protocol):
    """Implemented by frozen dataclasses whose fields are the Gymnasium env's keyword arguments.

    All methods are traced by JAX. Arrays have the env as their first axis; `step` keeps the float type of its state.
    """

    @property
    def observation_space(self) -> Space: ...

    @property
    def action_space(self) -> Space: ...

    @property
    def max_episode_steps(self) -> int: ...

    def reset(self, key: Array, n: int) -> Tree:
        """The first states of `n` episodes."""

    def step(self, state: Tree, action: Array, key: Array) -> tuple[Tree, Array, Array]:
        """The next state, the reward (N,) and whether the MDP ended (N,)."""

    def observe(self, state: Tree) -> Tree:
        """The observation of each state."""

    def action_mask(self, state: Tree) -> Array | None:
        """Which actions are legal, (N, A) bool; None where the env gives no masks."""


class NumpyEnv(Protocol):
    """A NumPy port of an env that is deterministic after its reset: equal to it bit for bit, vectorised over envs.

    Arrays of a state have the env as their last axis.
    """

    def initial_state(self, random: np.random.Generator) -> Array:
        """The first state of one episode, drawn as the env draws it."""

    def step(self, state: Array, action: Array) -> tuple[Array, Array, Array]:
        """The next states, the rewards (N,) and whether the MDP ended (N,)."""

    def observe(self, state: Array) -> Array:
        """The observations, (N, ...), before they are rounded to the dtype of the env's space."""

    def state_of(self, env: Env) -> Array:
        """The state of a Gymnasium env, to compare with."""
