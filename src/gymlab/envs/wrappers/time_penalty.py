"""`time_penalty: 0.05`: every step costs a little in learning, so that episodes get short; scores do not change."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from gymlab.core.arrays import namespace
from gymlab.core.clock import Number
from gymlab.core.types import Array, Tree, VecStep
from gymlab.envs.reward_shaping import add_part
from gymlab.envs.transform import BaseTransform, is_reset


class TimePenalty(BaseTransform):
    """The part `time` of the training reward."""

    adds: ClassVar[tuple[str, ...]] = ("time",)

    cost: Annotated[Number, Field(ge=0)]
    """What a step costs."""

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        xp = namespace(step.reward)
        return state, add_part(step, "time", xp.where(is_reset(step), 0.0, -self.cost).astype(xp.float32))
