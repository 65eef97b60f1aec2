"""`scale_reward: 0.01`: learning sees the reward times a factor; reported returns do not change."""

from __future__ import annotations

from typing import Any, ClassVar

from gymlab.core.clock import Number
from gymlab.core.settings import Settings
from gymlab.core.types import Array, Tree, VecStep


class ScaleReward(Settings):
    """Multiplies `train_reward` and its components."""

    random: ClassVar[bool] = False

    factor: Number
    """What rewards are multiplied by."""

    def space(self, space: Any) -> Any:
        return space

    def init(self, n: int) -> Tree:  # noqa: ARG002 - no memory
        return ()

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        components = {name: part * self.factor for name, part in step.components.items()}
        return state, step._replace(train_reward=step.train_reward * self.factor, components=components)
