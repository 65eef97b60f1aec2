"""`count_bonus: {bins: 20, scale: 1}`: a bonus for seldom visited states, which fades with every visit."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from gymnasium import spaces
from pydantic import Field, PrivateAttr

from gymlab.core.arrays import namespace
from gymlab.core.clock import Count, Number
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.reward_shaping import add_part
from gymlab.envs.transform import BaseTransform, is_reset, unmasked

_MOST_CELLS = 10**7
Grid = tuple[np.ndarray, np.ndarray, np.ndarray]  # low, cells per unit, and bins of each component


class CountBonus(BaseTransform):
    """Pays scale / sqrt(visits) for the state reached: the part `count` of the training reward.

    States are the cells of a grid over the observation's bounds, or the values of a Discrete one. Visits are counted
    over all envs and episodes of the run and are part of its checkpoints.
    """

    adds: ClassVar[tuple[str, ...]] = ("count",)

    scale: Annotated[Number, Field(ge=0)] = 1.0
    """The bonus of a first visit."""
    bins: Annotated[Count, Field(ge=1)] | tuple[Annotated[Count, Field(ge=1)], ...] = 20
    """Cells along each component, or one number for all."""

    _grid: Grid | None = PrivateAttr(default=None)  # None for Discrete
    _cells: int = PrivateAttr(default=0)
    _start: int = PrivateAttr(default=0)

    def space(self, space: Space) -> Space:
        if isinstance(space, spaces.Discrete):
            self._grid = None
            self._cells = int(space.n)
            self._start = int(space.start)
            return space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1 or not space.is_bounded():
            raise UserError(f"count_bonus needs a Discrete observation or a vector with finite bounds, got {space}")
        bins = np.broadcast_to(self.bins, space.shape) if np.ndim(self.bins) == 0 else np.asarray(self.bins)
        if bins.shape != space.shape:
            raise UserError(f"wrapper 'count_bonus': bins={self.bins} must be one number or {space.shape[0]} of them")
        if math.prod(bins.tolist()) > _MOST_CELLS:
            raise UserError(f"wrapper 'count_bonus': bins={self.bins} make more than {_MOST_CELLS} cells: use fewer")
        per_unit = (bins / (space.high - space.low)).astype(np.float32)
        self._grid = (space.low.astype(np.float32), per_unit, bins)
        self._cells = math.prod(bins.tolist())
        return space

    def init(self, n: int) -> Tree:  # noqa: ARG002 - one table for all envs
        return np.zeros(self._cells, np.int32)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        xp = namespace(step.reward)
        cell = self._cell(unmasked(step.successor))
        visited = ~is_reset(step)
        if xp is np:
            counts = (state + np.bincount(cell[visited], minlength=self._cells)).astype(np.int32)
        else:
            counts = xp.asarray(state).at[cell].add(visited.astype(np.int32))
        bonus = self.scale / xp.sqrt(xp.maximum(counts[cell], 1).astype(np.float32))
        return counts, add_part(step, "count", xp.where(visited, bonus, 0.0).astype(np.float32))

    def _cell(self, obs: Array) -> Array:
        if self._grid is None:
            return obs - self._start
        xp = namespace(obs)
        low, per_unit, bins = self._grid
        places = xp.clip(((obs - low) * per_unit).astype(np.int32), 0, bins - 1)
        cell = xp.zeros(len(obs), np.int32)
        for index, count in enumerate(bins.tolist()):
            cell = cell * count + places[:, index]
        return cell
