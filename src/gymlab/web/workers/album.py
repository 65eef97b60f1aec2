"""The pictures of an episode as files in a temporary folder: of the env, and of what the policy saw of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from gymlab.core.types import Tree
from gymlab.networks.encoders import ImageShape, image_shape
from gymlab.web.workers.grid import grid, tiles
from gymlab.web.workers.png import png


class PictureFolder:
    """Writes `<name>-env-<step>.png` and `<name>-seen-<step>.png`."""

    def __init__(self, folder: Path, name: str, space: Any, stack: int) -> None:
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
        """How much each pixel matters: the gradient's size, one tile per frame."""
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


def first_picture(space: Any, path: tuple[str | int, ...] = ()) -> tuple[ImageShape | None, tuple[str | int, ...]]:
    """The shape of an observation's first picture, and where it stands."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in inner:
            shape, found = first_picture(part, (*path, key))
            if shape is not None:
                return shape, found
        return None, ()
    return image_shape(space), path
