"""`frame_stack: 4`: the policy sees the last k observations of an episode, oldest first."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from gymnasium import spaces
from pydantic import Field, PrivateAttr

from gymlab.core.arrays import namespace, where_rows
from gymlab.core.clock import Count
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.transform import BaseTransform, is_reset, map_unmasked, unmasked


class FrameStack(BaseTransform):
    """Vectors (d,) become (k*d,); images (H, W) become (H, W, k) and (H, W, C) become (H, W, k*C): channels last.

    An episode's first observation is repeated k times, and nothing of the episode before is left in it.
    """

    k: Annotated[Count, Field(ge=1)] = 4
    """Observations in a stack."""

    # Written by `space`, the one call that knows the shape; `init` reads it.
    _frame: tuple[tuple[int, ...], np.dtype[np.generic]] | None = PrivateAttr(default=None)

    def space(self, space: Space) -> spaces.Box:
        if not isinstance(space, spaces.Box) or len(space.shape) not in (1, 2, 3):
            raise UserError(f"frame_stack needs vectors or images (a Box of 1 to 3 dimensions), got {space}")
        dtype = np.dtype(np.float32) if space.dtype == np.float64 else np.dtype(space.dtype)
        self._frame = (space.shape, dtype)
        low, high = (np.asarray(self._flat(np.stack([bound] * self.k)[None])[0]) for bound in (space.low, space.high))
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)

    def init(self, n: int) -> Tree:
        assert self._frame is not None, "space() comes before init()"
        shape, dtype = self._frame
        return np.zeros((n, self.k, *shape), dtype)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        xp = namespace(step.reward)
        obs = unmasked(step.obs)
        successor = unmasked(step.successor)
        moved = xp.concatenate([state[:, 1:], successor[:, None]], axis=1)
        begun = xp.repeat(obs[:, None], self.k, axis=1)
        now = where_rows(step.fresh, begun, moved)
        # Before a first step there is no episode whose last stack could be shown.
        last = where_rows(is_reset(step), begun, moved)
        return now, step._replace(
            obs=map_unmasked(step.obs, lambda _: self._flat(now)),
            successor=map_unmasked(step.successor, lambda _: self._flat(last)),
        )

    def _flat(self, frames: Array) -> Array:
        """(N, k, *shape) frames in the policy's layout."""
        xp = namespace(frames)
        if frames.ndim == 3:
            return frames.reshape(frames.shape[0], -1)
        frames = xp.moveaxis(frames, 1, 3)  # (N, H, W, k) or (N, H, W, k, C)
        return frames.reshape(*frames.shape[:3], -1)
