"""What the settings of all algorithms share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from gymlab.core.clock import Number
from gymlab.core.schedules import Schedule, Scheduled, constant, within
from gymlab.core.settings import Settings

Positive = Annotated[Scheduled, within(0)]
Share = Annotated[Scheduled, within(0, 1)]


class AlgorithmSettings(Settings):
    """Numbers of type `Schedule` enter compiled code as values; the others are compiled in."""

    default_n_steps: ClassVar[int | None] = 128  # None: the env's time limit

    learning_rate: Positive = constant(3e-4)
    """Step size of the optimiser."""
    gamma: Share = constant(0.99)
    """Discount per step."""
    entropy_coef: Positive = constant(0.0)
    """Weight of the entropy bonus."""
    value_coef: Positive = constant(0.5)
    """Weight of the value loss."""
    max_grad_norm: Positive = constant(0.5)
    """Gradients are scaled down to this global norm."""
    optimizer: Literal["adam", "rmsprop", "sgd"] = "adam"
    """Gradient preconditioner."""
    optimizer_eps: Annotated[Number, Field(gt=0)] = 1e-5
    """The optimiser's epsilon."""
    on_lr_change: Literal["keep", "reset_moments"] = "keep"
    """Forget the optimiser's moments whenever the learning rate changes."""

    def schedules(self) -> dict[str, Schedule]:
        """The hyperparameters that enter `update` as numbers, by name."""
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if isinstance(value, Schedule)}

    def check_rollout(self, n_envs: int, n_steps: int) -> None:
        """Raise ValueError where these settings do not fit a rollout of n_steps x n_envs."""
