"""`previous_actions: 2`: the observation holds the last k actions of the episode, and their rewards if asked for."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from gymnasium import spaces
from pydantic import Field, PrivateAttr

from gymlab.core.arrays import namespace, where_rows
from gymlab.core.clock import Count
from gymlab.core.types import Array, Space, Spaces, Tree, VecStep
from gymlab.envs.observation_spaces import append_numbers, append_space, is_vector, to_vector, vector_space
from gymlab.envs.transform import BaseTransform, is_reset, map_unmasked

NAME = "previous_actions"


class PreviousActions(BaseTransform):
    """Oldest first, at the end of a vector or as the entry `previous_actions` of a Dict; zeros before an episode.

    Choices are one-hot. The actions are those that arrive here: of the policy, unless an outer wrapper changes them.
    """

    k: Annotated[Count, Field(ge=1)] = 1
    """How many actions."""
    rewards: bool = False
    """Also what each of them was paid."""

    _action: Space | None = PrivateAttr(default=None)
    _vector: bool = PrivateAttr(default=False)

    def spaces(self, inner: Spaces) -> Spaces:
        self._action = inner.action
        self._vector = is_vector(inner.observation)
        one = vector_space(inner.action)
        # Zeros stand for no action, so they must lie inside.
        low, high = np.minimum(one.low, 0), np.maximum(one.high, 0)
        if self.rewards:
            low, high = np.append(low, -np.inf), np.append(high, np.inf)
        held = spaces.Box(np.tile(low, self.k).astype(np.float32), np.tile(high, self.k).astype(np.float32))
        return inner._replace(observation=append_space(inner.observation, NAME, held))

    def init(self, n: int) -> Tree:
        assert self._action is not None, "spaces() comes before init()"
        width = vector_space(self._action).shape[0] + self.rewards
        return np.zeros((n, self.k, width), np.float32)

    def act(self, state: Tree, action: Array, key: Array | None = None) -> tuple[Tree, Array]:  # noqa: ARG002
        xp = namespace(action)
        assert self._action is not None, "spaces() comes before act()"
        taken = to_vector(self._action, action)
        if self.rewards:
            taken = xp.concatenate([taken, xp.zeros((len(taken), 1), np.float32)], -1)
        return xp.concatenate([state[:, 1:], taken[:, None]], axis=1), action

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        xp = namespace(step.reward)
        if self.rewards:
            paid = xp.concatenate([state[:, -1, :-1], step.reward[:, None]], -1)
            state = xp.concatenate([state[:, :-1], paid[:, None]], axis=1)
        none = xp.zeros_like(state)
        last = where_rows(is_reset(step), none, state)
        now = where_rows(step.fresh, none, state)

        def extend(obs: Tree, held: Array) -> Tree:
            flat = held.reshape(held.shape[0], -1)
            return map_unmasked(obs, lambda inner: append_numbers(inner, NAME, flat, vector=self._vector))

        return now, step._replace(obs=extend(step.obs, now), successor=extend(step.successor, last))
