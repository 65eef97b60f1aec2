"""ViZDoom's scenarios (extra `vizdoom`) under the package's ids, and the wrapper `doom`: preprocessed screens."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Annotated, Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs
from pydantic import Field

from gymlab.core.clock import Count
from gymlab.core.errors import UserError
from gymlab.core.settings import Settings
from gymlab.core.types import Json, Space
from gymlab.envs.gymnasium_types import Env, EnvValue, EnvWrapper, Info, ResetResult, StepResult
from gymlab.envs.image_ops import brightness, shrink
from gymlab.envs.wrappers import parse_settings
from gymlab.process.child import Child

PACKAGE = "vizdoom.gymnasium_wrapper"
_OURS = "gymlab.envs.games.doom:make_scenario"
_LITTER = Path("_vizdoom")  # an empty folder that the engine leaves in the current folder
_VARIABLE_SCALE = 100.0  # of health and ammunition
Side = Annotated[Count, Field(ge=8, le=1024)]


def register() -> None:
    """Make the package's scenarios known to gymnasium.make, as `Scenario`s; a second call changes nothing."""
    known = gymnasium.registry.get("VizdoomBasic-v1")
    if known is not None and known.entry_point == _OURS:
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Overriding environment")  # env processes are told of theirs before
        importlib.import_module(PACKAGE)
    for name, spec in list(gymnasium.registry.items()):
        if str(spec.entry_point).startswith(PACKAGE):
            kwargs = {**spec.kwargs, "entry_point": spec.entry_point}
            gymnasium.registry[name] = dataclasses.replace(spec, entry_point=_OURS, kwargs=kwargs)


def make_scenario(entry_point: str, **kwargs: Json) -> Scenario:
    """The package's env with its own arguments, as a Scenario."""
    creator = gymnasium.envs.registration.load_env_creator(entry_point)
    return Scenario(cast("Env", creator(**kwargs)))


class Scenario(EnvWrapper):
    """The package's env with three changes: its time limit is a truncation with a last observation, which the game's
    own timer lacks; it leaves no files in the current folder; and its engine exits with this process.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._game: Any = getattr(env.unwrapped, "game")  # noqa: B009 - Env has none that a type checker knows
        self._tics = int(self._game.get_episode_timeout())
        self._begin = int(self._game.get_episode_start_time())
        self._game.set_episode_timeout(0)
        self._folder: Path | None = None  # of the engine, while it runs
        self._watchdog: Child | None = None
        self._picture: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        if self._game.is_running():
            return self.env.reset(seed=seed, options=options)
        self._folder = Path(tempfile.mkdtemp(prefix="gymlab-doom-"))
        littered = _LITTER.exists()
        self._game.set_doom_config_path(str(self._folder / "vizdoom.ini"))
        obs, info = self.env.reset(seed=seed, options=options)
        self._watchdog = _start_watchdog(self._folder)
        if not littered:
            with contextlib.suppress(OSError):  # not empty, or another env's to remove
                _LITTER.rmdir()
        return obs, info

    def step(self, action: EnvValue) -> StepResult:
        obs, reward, terminated, _, info = self.env.step(action)
        played = self._game.get_episode_time() - self._begin
        return obs, reward, terminated, bool(not terminated and 0 < self._tics <= played), info

    def render(self) -> np.ndarray:
        """The screen; after the end of the game, which has none, the last one."""
        if self._picture is None or not self._game.is_episode_finished():
            self._picture = np.asarray(self.env.render())
        return self._picture

    def close(self) -> None:
        self.env.close()
        if self._watchdog is not None:
            self._watchdog.end()
            self._watchdog = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class DoomSettings(Settings):
    """How the screen is preprocessed."""

    size: tuple[Side, Side] = (60, 80)
    """Rows and columns, by averaging areas."""
    grayscale: bool = True
    """One channel per picture instead of three."""
    stack: Annotated[Count, Field(ge=1, le=64)] = 4
    """Decisions whose pictures are seen together, oldest first, as channels; black before the first."""


class Doom(EnvWrapper, RecordConstructorArgs):
    """Observations are `screen`, (rows, columns, stack) bytes, and where the scenario has any, `variables` in hundreds.

    Which these are (ammunition, health ...) is the scenario's to say.
    """

    Settings = DoomSettings  # its arguments

    def __init__(self, env: Env, **options: Json) -> None:
        settings = parse_settings(self.Settings, "doom", options)
        RecordConstructorArgs.__init__(self, **settings.model_dump())
        gymnasium.Wrapper.__init__(self, env)
        inner = env.observation_space
        if not isinstance(inner, spaces.Dict) or "screen" not in inner.spaces:
            raise UserError(f"wrapper 'doom' needs a scenario of ViZDoom such as VizdoomBasic-v1, got {env}")
        self._settings = settings
        self._channels = 1 if settings.grayscale else inner["screen"].shape[2]  # type: ignore[index]
        shape = (*settings.size, settings.stack * self._channels)
        self._stack = np.zeros(shape, np.uint8)
        shown: dict[str, Space] = {"screen": spaces.Box(0, 255, shape, np.uint8)}
        if "gamevariables" in inner.spaces:
            shown["variables"] = spaces.Box(-np.inf, np.inf, inner["gamevariables"].shape, np.float32)
        self.observation_space = spaces.Dict(shown) if len(shown) > 1 else shown["screen"]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        obs, info = self.env.reset(seed=seed, options=options)
        self._stack = np.zeros_like(self._stack)
        return self._observe(obs), info

    def step(self, action: EnvValue) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._observe(obs), reward, terminated, truncated, info

    def _observe(self, obs: dict[str, np.ndarray]) -> EnvValue:
        screen = obs["screen"]
        size = self._settings.size
        if self._channels == 1:
            planes = [brightness(screen) if screen.shape[2] == 3 else screen[:, :, 0]]
        else:
            planes = [screen[:, :, channel] for channel in range(self._channels)]
        picture = np.stack([shrink(plane, size) for plane in planes], axis=-1)
        self._stack = np.concatenate([self._stack[:, :, self._channels :], picture], axis=2)
        if not isinstance(self.observation_space, spaces.Dict):
            return self._stack
        return {"screen": self._stack, "variables": obs["gamevariables"] / np.float32(_VARIABLE_SCALE)}


def _start_watchdog(own: Path) -> Child | None:
    """A shell that kills the engine using this folder once our end of its stdin closes: the engine would never exit."""
    for folder in Path("/proc").glob("[0-9]*"):  # Linux only
        with contextlib.suppress(OSError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and str(own).encode() in (folder / "cmdline").read_bytes():
                command = ["/bin/sh", "-c", 'read line; kill -9 "$1"; rm -r "$2"', "watchdog", folder.name, str(own)]
                return Child(command, stdin="pipe", session="own")
    return None
