"""Observations that are pictures, drawn for people: a stack as a grid, one tile per frame, the newest last."""

from __future__ import annotations

import math

import numpy as np

from gymlab.networks.encoders import ImageShape

_GAP = 2  # pixels between tiles; a tile is enlarged to about this
_SIDE = 160


def tiles(values: np.ndarray, shape: ImageShape, stack: int = 1) -> list[np.ndarray]:
    """The frames of an observation: (rows, columns) grey or (rows, columns, 3) in colour, as bytes."""
    picture = values.reshape(shape.channels, shape.rows, shape.columns) if shape.channels_first else values
    picture = np.moveaxis(picture, 0, -1) if shape.channels_first else picture
    picture = _as_bytes(picture.reshape(shape.rows, shape.columns, shape.channels))
    if shape.channels == 3 * stack:
        return [picture[:, :, 3 * i : 3 * i + 3] for i in range(stack)]
    return [picture[:, :, i] for i in range(shape.channels)]


def _as_bytes(picture: np.ndarray) -> np.ndarray:
    if picture.dtype == np.uint8:
        return picture
    low, high = float(picture.min()), float(picture.max())
    low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    return np.asarray((picture - low) / max(high - low, 1e-9) * 255, np.uint8)


def grid(frames: list[np.ndarray]) -> np.ndarray:
    """Tiles side by side, in as many rows as make it about square once there are more than four."""
    frames = [frame if frame.ndim == 3 else frame[:, :, None].repeat(3, 2) for frame in frames]
    rows, columns = frames[0].shape[:2]
    times = max(1, _SIDE // max(rows, columns))
    across = len(frames) if len(frames) <= 4 else math.ceil(math.sqrt(len(frames)))
    down = -(-len(frames) // across)
    high = rows * times
    wide = columns * times
    whole = np.full((down * (high + _GAP) - _GAP, across * (wide + _GAP) - _GAP, 3), 128, np.uint8)
    for place, frame in enumerate(frames):
        top = place // across * (high + _GAP)
        left = place % across * (wide + _GAP)
        whole[top : top + high, left : left + wide] = frame.repeat(times, 0).repeat(times, 1)
    return whole


def heated(frames: list[np.ndarray], heat: list[np.ndarray]) -> list[np.ndarray]:
    """Tiles with what mattered in red: `heat` is not negative, and the most of all tiles is fully red."""
    most = max(float(part.max()) for part in heat) or 1.0
    found = []
    for frame, part in zip(frames, heat, strict=True):
        colour = frame if frame.ndim == 3 else frame[:, :, None].repeat(3, 2)
        share = np.sqrt(part / most)[:, :, None]
        found.append(np.asarray(colour * 0.6 * (1 - share) + np.array([255.0, 40.0, 0.0]) * share, np.uint8))
    return found
