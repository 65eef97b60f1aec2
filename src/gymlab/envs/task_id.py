"""Task id: a transform that tells a policy of several tasks which one an observation is of."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces as gym

from gymlab.core.arrays import namespace
from gymlab.core.types import Array, Tree, VecStep
from gymlab.envs.transform import BaseTransform, map_observations


class TaskId(BaseTransform):
    """Observations become {"obs": ..., "task": number}; encoders see a choice, and normalising leaves it alone."""

    index: int
    tasks: int

    def space(self, space: Any) -> gym.Dict:
        return gym.Dict({"obs": space, "task": gym.Discrete(self.tasks)})

    def apply(self, state: Tree, step: VecStep, key: Array | None) -> tuple[Tree, VecStep]:
        del key
        number = namespace(step.reward).full(step.reward.shape, self.index, np.int32)
        return state, map_observations(step, lambda obs: {"obs": obs, "task": number})
