"""Reward shaping: named parts of the training reward, whose sum it stays equal to, and potential-based shaping."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

import numpy as np
from gymnasium import spaces
from pydantic import Field

from gymlab.core.arrays import namespace
from gymlab.core.clock import Number
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.transform import BaseTransform, is_reset, unmasked

ENV = "env"
"""The part of the env's own reward."""


def add_part(step: VecStep, name: str, amount: Array) -> VecStep:
    """The step with `amount` (N,) added to what learning sees, under a name."""
    parts = dict(step.components) or {ENV: step.train_reward}
    parts[name] = parts[name] + amount if name in parts else amount
    return step._replace(train_reward=step.train_reward + amount, components=parts)


class Potential(BaseTransform):
    """Adds gamma * potential(s') - potential(s), with a potential of 0 after the end (Ng, Harada and Russell, 1999)."""

    needs: ClassVar[tuple[int, ...]]  # the shape of the observations it reads

    gamma: Annotated[Number, Field(ge=0, le=1)] = 0.99
    """The algorithm's discount; with more than that it also pays to stay where the potential is high."""

    @abstractmethod
    def potential(self, obs: Array) -> Array:
        """(N,) of observations (N, ...)."""

    def space(self, space: Space) -> Space:
        if not isinstance(space, spaces.Box) or space.shape != self.needs:
            name = type(self).__name__
            raise UserError(f"{name} reads the env's own observations of shape {self.needs}, got {space}: put it first")
        return space

    def init(self, n: int) -> Tree:
        return np.zeros(n, np.float32)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        xp = namespace(step.reward)
        after = xp.where(step.terminated, 0.0, self.potential(unmasked(step.successor)))
        bonus = xp.where(is_reset(step), 0.0, self.gamma * after - state).astype(np.float32)
        return self.potential(unmasked(step.obs)).astype(np.float32), add_part(step, self.adds[0], bonus)
