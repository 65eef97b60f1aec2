"""Shaping by a potential: a bonus for coming closer to where one should be, which leaves the best policy as it was."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

import numpy as np
from gymnasium import spaces
from pydantic import Field

from gymlab.core.arrays import namespace
from gymlab.core.clock import Number
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Tree, VecStep
from gymlab.envs.reward_parts import add_part
from gymlab.envs.transform import Plain, bare, begins


class Potential(Plain):
    """Adds gamma * potential(s') - potential(s), with a potential of 0 after the end (Ng, Harada and Russell, 1999)."""

    needs: ClassVar[tuple[int, ...]]  # the shape of the observations it reads

    gamma: Annotated[Number, Field(ge=0, le=1)] = 0.99
    """The algorithm's discount; with more than that it also pays to stay where the potential is high."""

    @abstractmethod
    def potential(self, obs: Array) -> Array:
        """(N,) of observations (N, ...)."""

    def space(self, space: Any) -> Any:
        if not isinstance(space, spaces.Box) or space.shape != self.needs:
            name = type(self).__name__
            raise UserError(f"{name} reads the env's own observations of shape {self.needs}, got {space}: put it first")
        return space

    def init(self, n: int) -> Tree:
        return np.zeros(n, np.float32)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        xp = namespace(step.reward)
        after = xp.where(step.terminated, 0.0, self.potential(bare(step.successor)))
        bonus = xp.where(begins(step), 0.0, self.gamma * after - state).astype(np.float32)
        return self.potential(bare(step.obs)).astype(np.float32), add_part(step, self.adds[0], bonus)
