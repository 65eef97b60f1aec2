"""`grayscale`: colour pictures become grey ones."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.image_ops import brightness
from gymlab.envs.transform import BaseTransform, map_observations


class Grayscale(BaseTransform):
    """(H, W, 3) bytes -> (H, W) bytes."""

    def space(self, space: Space) -> spaces.Box:
        if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or space.shape[2:] != (3,):
            raise UserError(f"grayscale needs pictures (a uint8 Box of (height, width, 3)), got {space}")
        return spaces.Box(0, 255, space.shape[:2], np.uint8)

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        return state, map_observations(step, brightness)
