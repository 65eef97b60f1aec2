"""Pictures of an episode as PNG files in a temporary folder: of the env, and of image observations.

A stack of frames is drawn as a grid of tiles, the newest last. The PNG encoder needs the standard library only.
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path

import numpy as np
from gymnasium import spaces

from gymlab.core.types import Space, Tree
from gymlab.networks.encoders import ImageShape, image_shape


class PictureFolder:
    """Writes `<name>-env-<step>.png` and `<name>-seen-<step>.png`."""

    def __init__(self, folder: Path, name: str, space: Space, stack: int) -> None:
        self._folder = folder
        self._name = name
        self._stack = stack
        self.shape, self._path = first_picture(space)

    def add_env(self, step: int, drawn: np.ndarray) -> str:
        return self.write(f"env-{step:05d}", drawn)

    def add_seen(self, step: int, observation: Tree) -> str:
        """The observation's picture as a grid; "" where it has none."""
        if self.shape is None:
            return ""
        return self.write(f"seen-{step:05d}", grid(self.tiles_of(observation)))

    def tiles_of(self, observation: Tree) -> list[np.ndarray]:
        assert self.shape is not None
        return tiles(at_path(observation, self._path), self.shape, self._stack)

    def heat_of(self, gradients: Tree) -> list[np.ndarray]:
        """Absolute gradient per pixel, one tile per frame."""
        assert self.shape is not None
        sizes = np.abs(at_path(gradients, self._path))
        sizes = np.moveaxis(sizes, 0, -1) if self.shape.channels_first else sizes
        sizes = sizes.reshape(self.shape.rows, self.shape.columns, self.shape.channels)
        deep = 3 if self.shape.channels == 3 * self._stack else 1
        return [sizes[:, :, i : i + deep].max(2) for i in range(0, self.shape.channels, deep)]

    def write(self, name: str, drawn: np.ndarray) -> str:
        file = f"{self._name}-{name}.png"
        (self._folder / file).write_bytes(png(drawn))
        return file


def at_path(tree: Tree, path: tuple[str | int, ...]) -> np.ndarray:
    for key in path:
        tree = tree[key]
    return np.asarray(tree)


def first_picture(space: Space, path: tuple[str | int, ...] = ()) -> tuple[ImageShape | None, tuple[str | int, ...]]:
    """Shape and path of the first image in an observation space."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in inner:
            shape, found = first_picture(part, (*path, key))
            if shape is not None:
                return shape, found
        return None, ()
    return image_shape(space), path


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
    """Tiles in one row, or in a roughly square grid when there are more than four."""
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
    """Tiles with a red heat map; `heat` is not negative and scaled by its maximum over all tiles."""
    most = max(float(part.max()) for part in heat) or 1.0
    found = []
    for frame, part in zip(frames, heat, strict=True):
        colour = frame if frame.ndim == 3 else frame[:, :, None].repeat(3, 2)
        share = np.sqrt(part / most)[:, :, None]
        found.append(np.asarray(colour * 0.6 * (1 - share) + np.array([255.0, 40.0, 0.0]) * share, np.uint8))
    return found


_KINDS = {1: 0, 3: 2}  # channels to PNG's colour types: grey, and red-green-blue


def png(picture: np.ndarray) -> bytes:
    """(rows, columns) or (rows, columns, 3) bytes as a PNG file."""
    rows, columns = picture.shape[:2]
    channels = 1 if picture.ndim == 2 else picture.shape[2]
    lines = np.ascontiguousarray(picture, np.uint8).reshape(rows, columns * channels)
    filtered = np.concatenate([np.zeros((rows, 1), np.uint8), lines], 1)
    header = struct.pack(">IIBBBBB", columns, rows, 8, _KINDS[channels], 0, 0, 0)
    parts = _chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(filtered.tobytes(), 2)), _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
