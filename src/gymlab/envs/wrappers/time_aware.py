"""`time_aware`: the observation says how much of the time limit is used up, from 0 to 1."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from pydantic import PrivateAttr

from gymlab.core.arrays import namespace
from gymlab.core.types import Array, Spaces, Tree, VecStep
from gymlab.envs.observation_spaces import append_numbers, append_space, is_vector
from gymlab.envs.transform import BaseTransform, is_reset, map_unmasked

NAME = "time"


class TimeAware(BaseTransform):
    """One more number at the end of a vector, or the entry `time` of a Dict.

    It counts the agent's steps, of which a frame skip leaves fewer until the limit. It stays 1 where an action mask cut
    steps short, so that the limit takes more of them.
    """

    _vector: bool = PrivateAttr(default=False)
    _limit: int = PrivateAttr(default=1)

    def spaces(self, inner: Spaces) -> Spaces:
        self._vector = is_vector(inner.observation)
        self._limit = -(-inner.max_episode_steps // inner.limit_steps_per_step)
        share = spaces.Box(0.0, 1.0, (1,), np.float32)
        return inner._replace(observation=append_space(inner.observation, NAME, share))

    def init(self, n: int) -> Tree:
        return np.zeros(n, np.int32)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        xp = namespace(step.reward)
        elapsed = xp.where(is_reset(step), 0, state + 1)
        now = xp.where(step.fresh, 0, elapsed)

        def extend(obs: Tree, count: Array) -> Tree:
            share = xp.minimum(count.astype(np.float32) / np.float32(self._limit), np.float32(1))[:, None]
            return map_unmasked(obs, lambda inner: append_numbers(inner, NAME, share, vector=self._vector))

        return now, step._replace(obs=extend(step.obs, now), successor=extend(step.successor, elapsed))
