"""Protocols of ports: batched pure functions over an env state, without time limit or autoreset."""

from __future__ import annotations

from typing import Protocol

from gymlab.core.types import Array, Space, Tree


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
