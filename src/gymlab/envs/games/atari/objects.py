"""`objects`: Pong and Breakout as positions, velocities and visibility, read from the console's memory.

Nothing is drawn and nothing is searched for: an object that is not there has position 0 and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError, suggestion
from gymlab.envs.games.atari.console import Console, ConsoleSettings, parse

Point = tuple[float, float] | None  # the top left corner on the screen of 160 x 210 pixels; None: not to be seen


class Seen(NamedTuple):
    """One coordinate or moving thing of a game."""

    name: str
    axes: str  # "x", "y" or "xy": the ways in which it moves; a paddle has one, a ball two
    extent: tuple[float, float]  # width and height in pixels
    fastest: float  # pixels in a decision of four frames: the velocity that counts as 1
    read: Callable[[bytes | np.ndarray], Point]


class Game(NamedTuple):
    """What is known of a game's memory and controls."""

    objects: tuple[Seen, ...]  # the ball is the last
    actions: tuple[str, ...]  # ALE's names, one per action of ours
    labels: tuple[str, ...]
    fires_when_missing: str  # the object without which FIRE is pressed; "" where the game serves by itself


def pong() -> Game:
    return Game(
        objects=(
            Seen("player", "y", (4, 16), 24, lambda ram: (140.0, int(ram[51]) - 13.0) if ram[51] else None),
            Seen("enemy", "y", (4, 16), 8, lambda ram: (16.0, int(ram[50]) - 15.0) if ram[50] > 33 else None),
            Seen("ball", "xy", (2, 4), 12, _pong_ball),
        ),
        actions=("NOOP", "RIGHT", "LEFT"),
        labels=("stay", "up", "down"),
        fires_when_missing="",
    )


def breakout() -> Game:
    return Game(
        objects=(
            Seen("paddle", "x", (16, 4), 24, lambda ram: (int(ram[72]) - 47.0, 189.0) if ram[72] else None),
            Seen(
                "ball", "xy", (2, 4), 16, lambda ram: (int(ram[99]) - 49.0, int(ram[101]) + 9.0) if ram[101] else None
            ),
        ),
        actions=("NOOP", "RIGHT", "LEFT"),
        labels=("stay", "right", "left"),
        fires_when_missing="ball",
    )


GAMES = {"pong": pong, "breakout": breakout}
_CENTRE, _HALF = {"x": 80.0, "y": 114.0}, {"x": 80.0, "y": 96.0}
_NEAR = 24.0  # pixels between the middles of ball and paddle that count as 1: a hit is within 10


def _pong_ball(ram: Any) -> Point:
    x, y = int(ram[49]) - 49.0, int(ram[54]) - 14.0
    return (x, y) if ram[54] and ram[49] and y > 30 else None


class AtariObjects(Console):
    """Per object: its coordinates and velocities, about [-1, 1], and whether it is there; then, finer, how far the ball
    is from each paddle along the paddle's way; then the last action.

    `names` are the components. A velocity is the way since the last decision; 0 where an object has just appeared.
    """

    Settings = ConsoleSettings  # its arguments

    def __init__(self, env: gymnasium.Env[Any, Any], **given: Any) -> None:
        settings = parse(self.Settings, "objects", given)
        super().__init__(env, settings)
        game = getattr(env.unwrapped, "_game", "")
        if game not in GAMES:
            raise UserError(f"wrapper 'objects' does not know the memory of '{game}': {suggestion(game, GAMES)}")
        self.game = GAMES[game]()
        by_name = {action.name: action for action in self.actions}
        self._choices = [by_name[name] for name in self.game.actions]
        self._before: list[Point] = []
        self._now: list[Point] = []
        self.names = _names(self.game)
        self.action_labels = self.game.labels
        self.action_space = spaces.Discrete(len(self._choices))
        self.observation_space = spaces.Box(-1.0, 1.0, (len(self.names),), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        del options
        info = self.begin(seed)
        self._now = self.positions()
        self._before = self._now
        return self._observe(0), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        missing = self.game.fires_when_missing
        serves = missing and self._now[[seen.name for seen in self.game.objects].index(missing)] is None
        done = self.play(self._fire if serves else self._choices[action])
        self._before, self._now = self._now, self.positions()
        return self._observe(int(action)), done.reward, done.terminated, done.truncated, self._info(done.life_lost)

    def positions(self) -> list[Point]:
        """Where each object is on the screen, in pixels, in the order of `game.objects`."""
        ram = self.ale.getRAM()
        return [seen.read(ram) for seen in self.game.objects]

    def _observe(self, action: int) -> np.ndarray:
        numbers: list[float] = []
        for seen, before, now in zip(self.game.objects, self._before, self._now, strict=True):
            for axis in seen.axes:
                i = "xy".index(axis)
                numbers.append(0.0 if now is None else (now[i] - _CENTRE[axis]) / _HALF[axis])
            for axis in seen.axes:
                i = "xy".index(axis)
                numbers.append(0.0 if now is None or before is None else (now[i] - before[i]) / seen.fastest)
            numbers.append(float(now is not None))
        numbers += [self._from_paddle(i) for i, seen in enumerate(self.game.objects) if len(seen.axes) == 1]
        numbers += [float(action == i) for i in range(len(self._choices))]
        return np.clip(np.array(numbers, np.float32), -1.0, 1.0)

    def _from_paddle(self, which: int) -> float:
        paddle, ball = self._now[which], self._now[-1]
        if paddle is None or ball is None:
            return 0.0
        seen = self.game.objects[which]
        i = "xy".index(seen.axes)
        return (ball[i] - paddle[i] + (self.game.objects[-1].extent[i] - seen.extent[i]) / 2) / _NEAR


def _names(game: Game) -> tuple[str, ...]:
    names: list[str] = []
    for seen in game.objects:
        names += [f"{seen.name}_{axis}" for axis in seen.axes]
        names += [f"{seen.name}_v{axis}" for axis in seen.axes]
        names.append(f"{seen.name}_visible")
    names += [f"ball_from_{seen.name}" for seen in game.objects if len(seen.axes) == 1]
    return (*names, *(f"last_{label}" for label in game.labels))
