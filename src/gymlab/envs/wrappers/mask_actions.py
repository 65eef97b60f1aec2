"""`mask_actions: [2]`: these discrete actions are never taken."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from pydantic import Field, PrivateAttr

from gymlab.core.arrays import namespace
from gymlab.core.clock import Count
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Masked, Spaces, Tree, VecStep
from gymlab.envs.transform import BaseTransform


class MaskActions(BaseTransform):
    """The network keeps an output for them, so that a later stage can allow them; remap_actions leaves them out.

    They count as illegal besides what the env itself masks. Where that would leave nothing, the env's mask rules.
    """

    never: tuple[Count, ...] = Field(min_length=1)
    """Indices of the actions, from 0."""

    _allowed: np.ndarray = PrivateAttr()

    def spaces(self, inner: Spaces) -> Spaces:
        if not isinstance(inner.action, spaces.Discrete):
            raise UserError(f"mask_actions needs Discrete actions, got {inner.action}")
        n = int(inner.action.n)
        wrong = [index for index in self.never if not 0 <= index < n]
        if wrong or len(set(self.never)) == n:
            problem = f"there is no action {wrong[0]}" if wrong else "no action is left"
            raise UserError(f"wrapper 'mask_actions': {problem}: the env has {n}, counted from 0")
        self._allowed = ~np.isin(np.arange(n), self.never)
        return inner._replace(masked=True)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        xp = namespace(step.reward)

        def mask(obs: Tree) -> Masked:
            if not isinstance(obs, Masked):
                return Masked(obs, xp.broadcast_to(xp.asarray(self._allowed), (len(step.reward), len(self._allowed))))
            both = obs.mask & self._allowed
            return Masked(obs.obs, xp.where(both.any(-1, keepdims=True), both, obs.mask))

        return state, step._replace(obs=mask(step.obs), successor=mask(step.successor))
