"""`atari`: the images of a game, preprocessed: max-pooled over two frames, greyscale, resized, stacked.

Written for any env process; the `ale` engine does the same natively, within one grey level of 255.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, SupportsIndex

import numpy as np
from gymnasium import spaces
from pydantic import Field

from gymlab.core.clock import Count
from gymlab.core.types import Json
from gymlab.envs.games.atari.emulator import AtariWrapper, EmulatorSettings
from gymlab.envs.gymnasium_types import Env, Info, ResetResult, StepResult
from gymlab.envs.settings import EnvKwargs
from gymlab.envs.transform import Transform
from gymlab.envs.wrappers import parse_settings

SCREEN = (210, 160)  # rows, columns
Side = Annotated[Count, Field(ge=8, le=1024)]


class PictureSettings(EmulatorSettings):
    """Atari preprocessing, for this wrapper and for the `ale` engine."""

    max_pool: bool = True
    """Brightest pixel of the last two frames: sprites that are drawn every other frame do not flicker."""
    grayscale: bool = True
    """One channel per frame instead of three."""
    size: tuple[Side, Side] = (84, 84)
    """Rows and columns, by averaging areas."""
    stack: Annotated[Count, Field(ge=1, le=64)] = 4
    """Decisions whose pictures are seen together, oldest first, as channels; black before the first."""
    clip_reward: bool = True
    """Learning sees the sign of the reward; reported returns are the game's own."""


class AtariPictures(AtariWrapper):
    """Observations are (rows, columns, stack) bytes, or (rows, columns, stack * 3) in colour."""

    Settings = PictureSettings  # its arguments
    settings: PictureSettings

    def __init__(self, env: Env, **options: Json) -> None:
        settings = parse_settings(self.Settings, "atari", options)
        super().__init__(env, settings)
        # The consoles' timers differ by seed, which a few games show (Q*bert's colours).
        self._reloads = not self.sticky
        self._channels = 1 if settings.grayscale else 3
        shape = (*settings.size, settings.stack * self._channels)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        raw = SCREEN if settings.grayscale else (*SCREEN, 3)
        self._raw = np.zeros((2, *raw), np.uint8)  # the last frame and the one before it
        self._stack = np.zeros(shape, np.uint8)

    @classmethod
    def extra_transforms(cls, options: EnvKwargs) -> tuple[Transform, ...]:
        """The transform that clips the training reward."""
        from gymlab.envs.wrappers.clip_reward import ClipReward

        return (ClipReward(to="sign"),) if parse_settings(PictureSettings, "atari", options).clip_reward else ()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        del options
        info = self.begin(seed)
        self._stack = np.zeros_like(self._stack)
        self.read_screen(self._raw[0], colour=self._channels == 3)
        self._raw[1] = 0
        self._show()
        return self._stack, info

    def step(self, action: SupportsIndex) -> StepResult:
        done = self.play(self.actions[action])
        self._show()
        return self._stack, done.reward, done.terminated, done.truncated, self._info(done.life_lost)

    def frame_done(self, frame: int) -> None:
        left = self.frameskip - 1 - frame
        if left < 2:
            self.read_screen(self._raw[left], colour=self._channels == 3)

    def _show(self) -> None:
        """Append the newest image to the stack; earlier observations do not change."""
        if self.settings.max_pool:
            # In place: where a game ends within a decision, its last picture is pooled once more, as natively.
            np.maximum(self._raw[0], self._raw[1], out=self._raw[0])
        picture = shrink(self._raw[0], self.settings.size)
        old = self._stack[:, :, self._channels :]
        self._stack = np.concatenate([old, picture.reshape(*self.settings.size, self._channels)], axis=2)


def shrink(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Area interpolation: each new pixel is the rounded mean of the area it covers."""
    if picture.shape[:2] == size:
        return picture.copy()
    wide = picture.reshape(*picture.shape[:2], -1)
    rows = _shares(picture.shape[0], size[0])
    columns = _shares(picture.shape[1], size[1])
    # Few shifted sums instead of a matrix product, which would use the threads of a BLAS library.
    low = sum(wide[index] * share[:, None, None] for index, share in rows)
    small = sum(low[:, index] * share[:, None] for index, share in columns)
    return np.rint(small).astype(np.uint8).reshape(*size, *picture.shape[2:])


@cache
def _shares(old: int, new: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of (old pixel, its share) for each new pixel: as many pairs as old pixels under a new one."""
    edges = np.arange(new + 1) * (old / new)
    first = np.floor(edges[:-1]).astype(int)
    pairs = []
    for k in range(int(np.ceil(old / new)) + 1):
        pixel = first + k
        share = np.clip(np.minimum(edges[1:], pixel + 1) - np.maximum(edges[:-1], pixel), 0.0, 1.0) * (new / old)
        pairs.append((np.minimum(pixel, old - 1), share.astype(np.float32)))
    return [pair for pair in pairs if pair[1].any()]
