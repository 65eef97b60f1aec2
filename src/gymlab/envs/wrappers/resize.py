"""`resize: 42` (or `resize: [42, 63]`): pictures at another size, every pixel the mean of the area it covers."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from gymnasium import spaces
from pydantic import BeforeValidator, Field

from gymlab.core.arrays import namespace
from gymlab.core.clock import Count
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.image_ops import shrink
from gymlab.envs.transform import BaseTransform, map_observations

Side = Annotated[Count, Field(ge=1, le=4096)]
Size = Annotated[tuple[Side, Side], BeforeValidator(lambda raw: raw if isinstance(raw, list | tuple) else (raw, raw))]


class Resize(BaseTransform):
    """Grey (H, W) or colour (H, W, C) bytes."""

    to: Size
    """Height and width, or one number for both."""

    def space(self, space: Space) -> spaces.Box:
        if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3):
            raise UserError(f"resize needs pictures (a uint8 Box of (height, width) or with channels), got {space}")
        return spaces.Box(0, 255, (*self.to, *space.shape[2:]), np.uint8)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        return state, map_observations(step, self._resized)

    def _resized(self, pictures: Array) -> Array:
        if pictures.ndim == 3:
            return shrink(pictures, self.to)
        xp = namespace(pictures)
        return xp.moveaxis(shrink(xp.moveaxis(pictures, -1, 1), self.to), 1, -1)
