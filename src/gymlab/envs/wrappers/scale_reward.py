"""`scale_reward: 0.01`: learning sees the reward times a factor; reported returns do not change."""

from __future__ import annotations

from gymlab.core.clock import Number
from gymlab.core.types import Array, Tree, VecStep
from gymlab.envs.transform import BaseTransform


class ScaleReward(BaseTransform):
    """Multiplies `train_reward` and its components."""

    factor: Number
    """What rewards are multiplied by."""

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        components = {name: part * self.factor for name, part in step.components.items()}
        return state, step._replace(train_reward=step.train_reward * self.factor, components=components)
