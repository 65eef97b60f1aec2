"""`cartpole_centring: {gamma: 1, scale: 20}`: the cart is paid for coming closer to the middle of its track."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from gymlab.core.arrays import namespace
from gymlab.core.clock import Number
from gymlab.core.types import Array
from gymlab.envs.reward_shaping import Potential

EDGE = 2.4  # where the track ends


class Centring(Potential):
    """The potential falls from `scale` in the middle to 0 at the edges: the part `centring` of the training reward."""

    adds: ClassVar[tuple[str, ...]] = ("centring",)
    needs: ClassVar[tuple[int, ...]] = (4,)

    scale: Annotated[Number, Field(ge=0)] = 1.0
    """The potential in the middle."""

    def potential(self, obs: Array) -> Array:
        return self.scale * (1 - namespace(obs).abs(obs[:, 0]) / EDGE)
