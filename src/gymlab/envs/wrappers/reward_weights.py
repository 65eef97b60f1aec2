"""`reward_weights: {env: 1, centring: 0.5}`: how much each named part of the training reward counts."""

from __future__ import annotations

from typing import cast

from pydantic import model_validator

from gymlab.core.clock import Number
from gymlab.core.errors import UserError, suggestion
from gymlab.core.types import Array, Json, Tree, VecStep
from gymlab.envs.reward_shaping import ENV
from gymlab.envs.transform import BaseTransform


class RewardWeights(BaseTransform):
    """Multiplies the parts that the wrappers before it gave; those it does not name count once.

    `env` is what the env itself pays. The training reward is the sum of the weighted parts.
    """

    weights: dict[str, Number]
    """A factor for each part, by its name."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, raw: Json) -> Json:
        return raw if isinstance(raw, dict) and list(raw) == ["weights"] else {"weights": raw}

    def check_parts(self, names: list[str]) -> None:
        """UserError where a weight is given to a part that nothing before it adds."""
        for name in self.weights:
            if name not in names:
                known = f"{suggestion(name, names)} (parts come from the wrappers before it)"
                raise UserError(f"wrapper 'reward_weights': there is no part '{name}' of the reward: {known}")

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        parts = dict(step.components) or {ENV: step.train_reward}
        self.check_parts(list(parts))
        parts = {name: part * self.weights.get(name, 1.0) for name, part in parts.items()}
        return state, step._replace(train_reward=cast("Array", sum(parts.values())), components=parts)
