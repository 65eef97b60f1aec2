"""Image operations: RGB to greyscale, and downscaling by area means; for NumPy and JAX arrays alike."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gymlab.core.arrays import namespace
from gymlab.core.types import Array

_RED = 19595  # 0.299, 0.587 and 0.114 of 2**16: luma weights of ITU-R BT.601
_GREEN = 38470
_BLUE = 7471


def brightness(picture: Array) -> Array:
    """(..., H, W, 3) bytes -> (..., H, W) bytes."""
    red, green, blue = (picture[..., channel].astype(np.uint32) for channel in range(3))
    return ((red * _RED + green * _GREEN + blue * _BLUE + (1 << 15)) >> 16).astype(np.uint8)


def shrink(picture: Array, size: tuple[int, int]) -> Array:
    """(..., H, W) bytes at another size: every new pixel is the mean of the area it covers (area interpolation)."""
    *lead, height, width = picture.shape
    if height % size[0] == 0 and width % size[1] == 0:  # whole areas, many times faster
        areas = (size[0], height // size[0], size[1], width // size[1])
        total = picture.reshape(*lead, *areas).sum(axis=(-3, -1), dtype=np.uint32)
        return ((total + areas[1] * areas[3] // 2) // (areas[1] * areas[3])).astype(np.uint8)
    xp = namespace(picture)
    mean = _areas(height, size[0]) @ picture.astype(np.float32) @ _areas(width, size[1]).T
    return xp.clip(xp.round(mean), 0, 255).astype(np.uint8)


@lru_cache(32)
def _areas(old: int, new: int) -> np.ndarray:
    """(new, old): how much of each old pixel a new one is made of; its rows sum to 1."""
    edges = np.arange(new + 1) * (old / new)
    begin = edges[:-1, None]
    end = edges[1:, None]
    overlap = np.minimum(end, np.arange(1, old + 1)) - np.maximum(begin, np.arange(old))
    return (np.clip(overlap, 0, None) / (old / new)).astype(np.float32)
