"""Games of stable-retro (extra `retro`) such as `Retro/Airstriker-Genesis-v0`.

Its emulators allow one per process, so each env has a process of its own: any number can be made and closed anywhere.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Required, TypedDict

import gymnasium
import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError, suggestion
from gymlab.core.types import JsonObject
from gymlab.envs.gymnasium_types import Info
from gymlab.process.child import start_worker


class EmulatorReply(TypedDict, total=False):
    """A line of `retro_worker`: the first describes the game, each other one a decision."""

    bytes: Required[int]  # of the screen that follows
    error: str
    shape: tuple[int, ...]
    buttons: list[str | None]
    reward: float
    over: bool
    info: Info


PREFIX = "Retro/"
EPISODE_STEPS = 4500  # five minutes at 60 frames a second and 4 frames a step
_SHIPPED = "Airstriker-Genesis-v0"  # the one game whose ROM comes with the package
_CONTROLS = {
    _SHIPPED: [[], ["B"], ["LEFT"], ["RIGHT"], ["UP"], ["DOWN"], ["LEFT", "B"], ["RIGHT", "B"]],
}
_WORKER = "gymlab.envs.games.retro_worker"
_NOT_PLAYED = {"START", "SELECT", "MODE"}
_descriptions: dict[tuple[str, str], EmulatorReply] = {}  # by game and state: later processes are not waited for


def register(name: str = PREFIX + _SHIPPED) -> None:
    """Make a game known to gymnasium.make; a second call changes nothing."""
    if name not in gymnasium.registry:
        gymnasium.register(
            name,
            entry_point="gymlab.envs.games.retro:RetroEnv",
            kwargs={"game": name.removeprefix(PREFIX)},
            max_episode_steps=EPISODE_STEPS,
        )


def known(name: str) -> bool:
    """Whether the package knows this game; its ROM may be missing."""
    found = importlib.util.find_spec("stable_retro")
    folders = [Path(folder, "data") for folder in (found.submodule_search_locations or [])] if found else []
    game = name.removeprefix(PREFIX)
    return any((folder / kind / game).is_dir() for folder in folders for kind in ("stable", "experimental", "contrib"))


class RetroEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Screens are (rows, columns, 3) bytes. An episode is a function of its seed and actions.

    The state it begins in is always the same: 0 to `noop_max` idle frames, and sticky actions, make episodes differ.
    """

    metadata: Info = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        game: str,
        state: str = "",
        frameskip: int = 4,
        noop_max: int = 30,
        repeat_action_probability: float = 0.25,
        actions: list[list[str]] | None = None,
        render_mode: str | None = None,
    ) -> None:
        if frameskip < 1 or noop_max < 0 or not 0 <= repeat_action_probability < 1:
            raise UserError(
                f"frameskip={frameskip} must be at least 1, noop_max={noop_max} at least 0 and "
                f"repeat_action_probability={repeat_action_probability} below 1"
            )
        self._skip = frameskip
        self._noop_max = noop_max
        self._sticky = repeat_action_probability
        self._emulator = Emulator(game, state)
        self._buttons = [name or "" for name in self._emulator.description["buttons"]]
        chosen = actions or _CONTROLS.get(game) or [[], *([name] for name in self._buttons if name not in _NOT_PLAYED)]
        self._names = [list(pressed) for pressed in chosen if pressed != [""]]
        try:
            self._masks = [self._mask(pressed) for pressed in self._names]
        except UserError:
            self.close()
            raise
        self.action_space = spaces.Discrete(len(self._masks))
        self.observation_space = spaces.Box(0, 255, tuple(self._emulator.description["shape"]), np.uint8)
        self.render_mode = render_mode
        self._screen = np.zeros(self.observation_space.shape, np.uint8)
        self._last = self._mask([])

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.ndarray, Info]:
        super().reset(seed=seed, options=options)
        self._last = self._mask([])
        self._show(self._emulator.request({})[1])
        idle = int(self.np_random.integers(self._noop_max + 1))
        if idle:
            self._show(self._emulator.request({"masks": [self._last] * idle})[1])
        return self._screen, {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, Info]:
        masks = []
        draws = self.np_random.random(self._skip) if self._sticky else np.ones(self._skip)
        for draw in draws:
            if draw >= self._sticky:
                self._last = self._masks[action]
            masks.append(self._last)
        reply, screen = self._emulator.request({"masks": masks})
        self._show(screen)
        return self._screen, reply["reward"], reply["over"], False, reply["info"]

    def render(self) -> np.ndarray:
        return self._screen

    def close(self) -> None:
        self._emulator.close()

    def get_action_meanings(self) -> list[str]:
        """The buttons that each action presses."""
        return [" and ".join(pressed).lower() or "nothing" for pressed in self._names]

    def _mask(self, pressed: list[str]) -> list[int]:
        unknown = [name for name in pressed if name not in self._buttons]
        if unknown:
            raise UserError(f"actions: no button '{unknown[0]}': {suggestion(unknown[0], filter(None, self._buttons))}")
        return [int(name in pressed) for name in self._buttons]

    def _show(self, screen: bytes) -> None:
        """A new array each time: earlier observations must not change."""
        self._screen = np.frombuffer(screen, np.uint8).reshape(self._screen.shape)


class Emulator:
    """The process of one game. `description` holds its buttons and the shape of its screen."""

    def __init__(self, game: str, state: str) -> None:
        self._child = start_worker(_WORKER, arguments=(game, state), stderr="inherit", session="own")
        self._game = game
        self._ready = False
        if (game, state) not in _descriptions:
            _descriptions[game, state] = self._wait_ready()
        self.description = _descriptions[game, state]

    @property
    def pid(self) -> int:
        return self._child.pid

    def request(self, message: JsonObject) -> tuple[EmulatorReply, bytes]:
        """Its reply and the screen; RuntimeError where the process has ended."""
        if not self._ready:
            self._wait_ready()
        self._child.send(json.dumps(message))  # a process that has ended does not reply
        return self._reply()

    def close(self) -> None:
        self._child.end()

    def _wait_ready(self) -> EmulatorReply:
        self._ready = True
        description, _ = self._reply()
        if "error" in description:
            self.close()
            raise UserError(f"{PREFIX}{self._game} cannot be played: {description['error']}")
        return description

    def _reply(self) -> tuple[EmulatorReply, bytes]:
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the emulator of {self._game} ended with exit code {self._child.wait()}")
        reply: EmulatorReply = json.loads(line)
        return reply, self._child.stdout.read(reply["bytes"])
