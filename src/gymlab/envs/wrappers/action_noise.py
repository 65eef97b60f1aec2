"""`action_noise: 0.05`: what the env does is not always what the policy chose, in training only unless asked for."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from gymnasium import spaces
from pydantic import Field, PrivateAttr

from gymlab.core.arrays import namespace
from gymlab.core.clock import Number
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Masked, Spaces, Tree, VecStep
from gymlab.envs.random_ops import normal, uniform
from gymlab.envs.step_buffer import action_width
from gymlab.envs.transform import BaseTransform


class ActionNoise(BaseTransform):
    """A discrete action is replaced by one drawn from all legal ones; a continuous one is shifted and kept in bounds.

    The policy's own action is what is stored and learnt from.
    """

    random: ClassVar[bool] = True
    training_only: ClassVar[bool] = True

    amount: Annotated[Number, Field(ge=0, le=1)]
    """Discrete: the probability of a replacement. Continuous: the standard deviation, as a share of half the range."""
    in_evaluation: bool = False
    """Also in evaluation."""

    _spaces: Spaces | None = PrivateAttr(default=None)

    def spaces(self, inner: Spaces) -> Spaces:
        bounded = isinstance(inner.action, spaces.Box) and inner.action.is_bounded()
        if not bounded and not isinstance(inner.action, spaces.Discrete):
            raise UserError(f"action_noise needs Discrete or bounded Box actions, got {inner.action}")
        self._spaces = inner
        return inner

    def init(self, n: int) -> Tree:
        assert self._spaces is not None, "spaces() comes before init()"
        return np.ones((n, action_width(self._spaces.action)), bool) if self._spaces.masked else ()

    def act(self, state: Tree, action: Array, key: Array | None) -> tuple[Tree, Array]:
        assert self._spaces is not None, "spaces() comes before act()"
        space = self._spaces.action
        xp = namespace(action)
        if isinstance(space, spaces.Box):
            half = (space.high - space.low) / 2
            noisy = action + self.amount * half * normal(key, 0, action)
            return state, xp.clip(noisy, space.low, space.high).astype(action.dtype)
        assert isinstance(space, spaces.Discrete), "spaces() lets no other through"
        n = len(action)
        # The largest of as many uniform numbers belongs to each legal action with the same probability.
        draws = uniform(key, 1, action, (n, int(space.n)))
        drawn = xp.argmax(xp.where(state, draws, -1.0) if self._spaces.masked else draws, axis=-1) + int(space.start)
        replaced = uniform(key, 0, action, (n,)) < self.amount
        return state, xp.where(replaced, drawn, action).astype(action.dtype)

    def apply(self, state: Tree, step: VecStep, key: Array | None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        if isinstance(step.obs, Masked):
            state = namespace(step.reward).array(step.obs.mask)  # a copy: engines use their arrays again
        return state, step
