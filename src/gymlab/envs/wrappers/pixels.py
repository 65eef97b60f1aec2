"""`pixels: 42`: the policy sees the env's picture instead of its observation."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from gymlab.envs.gymnasium_types import Env, EnvValue, EnvWrapper, Info, ResetResult, StepResult
from gymlab.envs.image_ops import brightness, shrink


class Pixels(EnvWrapper, RecordConstructorArgs):
    """Rendered at every step, then made grey and small at once, so that only small pictures are passed around."""

    needs_rendering = True

    def __init__(
        self,
        env: Env,
        size: int | list[int] | tuple[int, int] = 84,
        rows: list[float] | tuple[float, float] = (0.0, 1.0),
        *,
        invert: bool = False,
    ) -> None:
        """`size` is height and width, or one number for both; `rows` the part of the picture's height that is kept.

        `invert` where the background is white: networks learn from what is not 0.
        """
        RecordConstructorArgs.__init__(self, size=size, rows=rows, invert=invert)
        gymnasium.Wrapper.__init__(self, env)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        if min(height, width) < 1 or not 0 <= rows[0] < rows[1] <= 1:
            raise ValueError(f"size={size!r} must be positive and rows={rows!r} rise from 0 to 1")
        if env.render_mode != "rgb_array":
            raise ValueError(f"{env} must be made with render_mode rgb_array, it is {env.render_mode!r}")
        self._size = (int(height), int(width))
        self._rows = rows
        self._invert = invert
        self.observation_space = spaces.Box(0, 255, self._size, np.uint8)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        _, info = self.env.reset(seed=seed, options=options)
        return self._picture(), info

    def step(self, action: EnvValue) -> StepResult:
        _, reward, terminated, truncated, info = self.env.step(action)
        return self._picture(), reward, terminated, truncated, info

    def _picture(self) -> np.ndarray:
        picture = np.asarray(self.env.render())
        first, last = (round(len(picture) * share) for share in self._rows)
        small = np.asarray(shrink(brightness(picture[first:last]), self._size))
        return 255 - small if self._invert else small
