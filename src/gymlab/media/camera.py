"""Camera: rendered pictures of an env, also on machines without a screen."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import cast

import numpy as np
from gymnasium.error import DependencyNotInstalled

from gymlab.core.errors import GymlabError, UserError
from gymlab.envs.gymnasium_types import Env, EnvValue, EnvWrapper, Info, ResetResult, StepResult
from gymlab.envs.make import make_env
from gymlab.envs.settings import EnvSettings

RGB = "rgb_array"
DEFAULT_FPS = 30
INSTALL_HINT = "films need an extra package: pip install 'gymlab[video]'"


def has_screen() -> bool:
    """Whether a window can be opened."""
    if os.environ.get("SDL_VIDEODRIVER") == "dummy":
        return False
    display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return display or not sys.platform.startswith("linux")


def without_screen() -> None:
    """Without a display, use SDL's dummy video driver. Must be called before pygame is imported."""
    if not has_screen():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


def why_no_film() -> str:
    """Why films cannot be written: what must be installed; "" if nothing."""
    missing = [name for name in ("av", "pygame") if importlib.util.find_spec(name) is None]
    return INSTALL_HINT if missing else ""


def ensure_rgb_render_support(env: Env) -> None:
    """UserError if an env has no `rgb_array` render mode, with the modes it has."""
    offered = [mode for mode in env.metadata.get("render_modes") or () if mode is not None]
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    if RGB not in offered:
        modes = f"it offers {', '.join(offered)}" if offered else "it offers no render_modes"
        raise UserError(f"{name} cannot be filmed: it has no render mode '{RGB}' ({modes})")


def rendered_text(env: Env) -> str:
    """The text that an env of render mode `ansi` draws."""
    drawn = cast("str | list[str]", env.render())
    return drawn if isinstance(drawn, str) else "\n".join(map(str, drawn))


class Camera(EnvWrapper):
    """Keeps the last picture of an episode, which autoreset would discard."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.last: np.ndarray | None = None  # the final state of the previous episode
        self._played = False

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        if self._played:
            self.last = self.picture()
        self._played = False
        return self.env.reset(seed=seed, options=options)

    def step(self, action: EnvValue) -> StepResult:
        self._played = True
        return self.env.step(action)

    def picture(self) -> np.ndarray:
        """The env's current picture, as (height, width, 3) bytes."""
        drawn: object = self.env.render()
        if isinstance(drawn, list):
            drawn = drawn[-1]
        if not (isinstance(drawn, np.ndarray) and drawn.ndim == 3 and drawn.shape[2] >= 3):
            raise UserError(f"{self.unwrapped} rendered no picture but a {type(drawn).__name__}")
        return np.ascontiguousarray(drawn[:, :, :3], np.uint8)

    @property
    def fps(self) -> float:
        """Steps per second at the env's own pace."""
        return env_fps(self)


def make_filmed(settings: EnvSettings, imports: tuple[str, ...] = ()) -> Camera:
    """The env with a camera; UserError where it cannot be filmed."""
    without_screen()
    unrendered = make_env(settings, imports=imports)
    try:
        ensure_rgb_render_support(unrendered)
    finally:
        unrendered.close()
    try:
        env = Camera(make_env(settings, render_mode=RGB, imports=imports))
        env.reset(seed=0)
        env.picture()
    except GymlabError:
        raise
    except (DependencyNotInstalled, ImportError) as error:
        raise UserError(f"{settings.id} cannot be filmed: {error}") from error
    except Exception as error:  # any error of the env or its renderer: the message names it
        raise UserError(f"{settings.id} cannot be filmed: {type(error).__name__}: {error}") from error
    return env


def env_fps(env: Env) -> float:
    """Steps per second at an env's own pace."""
    fps = env.metadata.get("render_fps")
    return float(fps) if isinstance(fps, int | float) and fps > 0 else DEFAULT_FPS


def stride_for(pace: float, most: float) -> int:
    """Steps per frame, so that a film at the env's pace has at most `most` frames per second."""
    return max(1, int(-(-pace // most)))


def enlarged(picture: np.ndarray, at_least: int = 480) -> np.ndarray:
    """The picture scaled up by a whole factor until its longer side has at least some size."""
    times = max(1, -(-at_least // max(picture.shape[:2])))
    return picture if times == 1 else picture.repeat(times, 0).repeat(times, 1)
