"""`mountain_car_energy: {gamma: 0.99, scale: 100}`: the car, discrete or continuous, is paid for gaining energy."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from gymlab.core.arrays import namespace
from gymlab.core.clock import Number
from gymlab.core.types import Array
from gymlab.envs.reward_shaping import Potential

_HALF_HILL = 0.0025 / 3  # the hill is sin(3x) high, and gravity pulls with 0.0025 cos(3x)


class Energy(Potential):
    """The potential is height and speed together: 0 at rest in the valley, `scale` with enough to climb the hill.

    Swinging up needs energy long before it shows in the position. The part `energy` of the training reward.
    """

    adds: ClassVar[tuple[str, ...]] = ("energy",)
    needs: ClassVar[tuple[int, ...]] = (2,)

    scale: Annotated[Number, Field(ge=0)] = 1.0
    """The potential of a car that can reach the top."""

    def potential(self, obs: Array) -> Array:
        height = _HALF_HILL * (namespace(obs).sin(3 * obs[:, 0]) + 1)
        return self.scale * (height + obs[:, 1] ** 2 / 2) / (2 * _HALF_HILL)
