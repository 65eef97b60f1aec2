"""`clip_reward` (or `clip_reward: [-1, 1]`): learning sees the sign of the reward, or the reward cut to a range."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from gymlab.core.arrays import namespace
from gymlab.core.clock import Number, parse_number
from gymlab.core.types import Array, Json, Tree, VecStep
from gymlab.envs.reward_shaping import add_part
from gymlab.envs.transform import BaseTransform


def _parse(raw: Json) -> Json:
    value = parse_number(raw)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = (-float(value), float(value))
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = (parse_number(end) for end in value)
        if isinstance(low, int | float) and isinstance(high, int | float) and low < high:
            return (float(low), float(high))
    if value != "sign":
        raise ValueError(f"expected sign, a bound above 0 or [low, high], got {raw!r}")
    return value


class ClipReward(BaseTransform):
    """Changes `train_reward` only; where it has named parts, what was cut off becomes the part `clipped`."""

    adds: ClassVar[tuple[str, ...]] = ("clipped",)

    to: Annotated[Literal["sign"] | tuple[Number, Number], BeforeValidator(_parse)] = "sign"
    """`sign`, a bound b for [-b, b], or [low, high]."""

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        xp = namespace(step.train_reward)
        reward = xp.sign(step.train_reward) if self.to == "sign" else xp.clip(step.train_reward, *self.to)
        if step.components:
            step = add_part(step, "clipped", reward - step.train_reward)
        return state, step._replace(train_reward=reward)
