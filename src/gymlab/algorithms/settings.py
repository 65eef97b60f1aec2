"""What the settings of all algorithms share."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from gymlab.core.clock import Number
from gymlab.core.errors import UserError, suggestion
from gymlab.core.schedules import Schedule, Scheduled, constant, within
from gymlab.core.settings import ReadWhen, Settings

Positive = Annotated[Scheduled, within(0)]
Share = Annotated[Scheduled, within(0, 1)]
OPTIMIZER_NAMES = ("adam", "adamw", "radam", "rmsprop", "sgd")


def _known_optimizer(name: str) -> str:
    if ":" not in name and name not in OPTIMIZER_NAMES:
        known = suggestion(name, OPTIMIZER_NAMES)
        raise ValueError(f"unknown optimizer '{name}': {known} (or give one as module:name)")
    return name


OptimizerName = Annotated[str, AfterValidator(_known_optimizer)]


RESERVED = ("progress", "update", "env_steps", "gradient_steps")  # `hp` has these beside the scheduled values


class AlgorithmSettings(Settings):
    """Numbers of type `Schedule` enter compiled code as values; the others are compiled in."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        for name in RESERVED:
            if name in cls.model_fields:
                raise UserError(
                    f"{cls.__name__}: the setting '{name}' needs another name: `hp` has a clock of that name"
                )

    default_n_steps: ClassVar[int | None] = 128  # None: the env's time limit

    learning_rate: Positive = constant(3e-4)
    """Step size of the optimiser."""
    gamma: Share = constant(0.99)
    """Discount per step."""
    max_grad_norm: Positive = constant(0.5)
    """Gradients are scaled down to this global norm."""
    optimizer: OptimizerName = "adam"
    """adam, adamw, radam, rmsprop or sgd; or one of your own, by reference (`optax:scale_by_lion`, `./mine.py:make`): a
    function that returns an optax.GradientTransformation without a learning rate."""
    optimizer_eps: Annotated[Number, Field(gt=0), ReadWhen("named optimizer with epsilon")] = 1e-5
    """Epsilon of the named optimisers."""
    weight_decay: Annotated[Number, Field(ge=0)] | None = None
    """Decoupled weight decay, times the learning rate; default: 0.01 for adamw, none for the others."""
    on_lr_change: Annotated[Literal["keep", "reset_moments"], ReadWhen("optimizer with moments")] = "keep"
    """Forget the optimiser's moments whenever the learning rate changes."""

    def schedules(self) -> dict[str, Schedule]:
        """The hyperparameters that enter `update` as numbers, by name."""
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if isinstance(value, Schedule)}

    def check_rollout(self, n_envs: int, n_steps: int) -> None:
        """Raise ValueError where these settings do not fit a rollout of n_steps x n_envs."""


class PolicyGradientSettings(AlgorithmSettings):
    """What algorithms with a policy and a value network share."""

    entropy_coef: Positive = constant(0.0)
    """Weight of the entropy bonus."""
    value_coef: Positive = constant(0.5)
    """Weight of the value loss."""
