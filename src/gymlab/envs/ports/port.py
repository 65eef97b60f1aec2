"""What a compiled environment is: batched pure functions over a state of its own making, without limits or resets."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from gymlab.core.types import Array, Tree


class JaxEnv(Protocol):
    """Implemented by frozen dataclasses whose fields are the Gymnasium env's keyword arguments.

    All methods are traced by JAX. Arrays have the env as their first axis; `step` keeps the float type of its state.
    """

    @property
    def observation_space(self) -> Any: ...

    @property
    def action_space(self) -> Any: ...

    @property
    def max_episode_steps(self) -> int: ...

    def reset(self, key: Array, n: int) -> Tree:
        """The first states of `n` episodes."""

    def step(self, state: Tree, action: Array, key: Array) -> tuple[Tree, Array, Array]:
        """The next state, the reward (N,) and whether the MDP ended (N,)."""

    def observe(self, state: Tree) -> Tree:
        """What the agent sees of each state."""

    def action_mask(self, state: Tree) -> Array | None:
        """Which actions are legal, (N, A) bool; None where the env gives no masks."""


class NumpyEnv(Protocol):
    """A NumPy twin of an env without chance after its reset: equal to it bit for bit, on the state of many at once.

    Arrays of a state have the env as their last axis.
    """

    def first(self, random: np.random.Generator) -> Array:
        """The first state of one episode, drawn as the env draws it."""

    def step(self, state: Array, action: Array) -> tuple[Array, Array, Array]:
        """The next states, the rewards (N,) and whether the MDP ended (N,)."""

    def observe(self, state: Array) -> Array:
        """What the agents see, (N, ...), before it is rounded to the type of the env's space."""

    def state_of(self, env: Any) -> Array:
        """The state that an env of Gymnasium holds, to compare with."""
