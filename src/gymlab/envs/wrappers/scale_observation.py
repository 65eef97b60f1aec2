"""`scale_observation` (or `scale_observation: [0, 1]`): bounded observations are mapped to a range."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from pydantic import PrivateAttr, model_validator

from gymlab.core.clock import Number
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.transform import BaseTransform, map_observations


class ScaleObservation(BaseTransform):
    """Needs a Box. Components without two finite bounds stay as they are, in the space too."""

    to: tuple[Number, Number] = (-1.0, 1.0)
    """[low, high] of the result."""

    _factor: np.ndarray = PrivateAttr()
    _offset: np.ndarray = PrivateAttr()

    @model_validator(mode="after")
    def _rises(self) -> ScaleObservation:
        if self.to[0] >= self.to[1]:
            raise ValueError(f"to={list(self.to)} must rise")
        return self

    def space(self, space: Space) -> spaces.Box:
        if not isinstance(space, spaces.Box):
            raise UserError(f"scale_observation needs a Box, got {space}: put flatten or one_hot before it")
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        bounded = np.isfinite(low) & np.isfinite(high) & (high > low)
        if not bounded.any():
            raise UserError(f"scale_observation needs bounds, and no component of {space} has two: use normalize.obs")
        low, high = np.where(bounded, low, 0.0), np.where(bounded, high, 1.0)
        factor = np.where(bounded, (self.to[1] - self.to[0]) / (high - low), 1.0)
        offset = np.where(bounded, self.to[0] - low * factor, 0.0)
        self._factor = factor.astype(np.float32)
        self._offset = offset.astype(np.float32)
        low = np.where(bounded, self.to[0], space.low).astype(np.float32)
        high = np.where(bounded, self.to[1], space.high).astype(np.float32)
        return spaces.Box(low, high, dtype=np.float32)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        return state, map_observations(step, lambda obs: obs.astype(np.float32) * self._factor + self._offset)
