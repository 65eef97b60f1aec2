"""`objects`: Pong and Breakout as positions, velocities and visibility, read from the console's memory.

Nothing is rendered and no images are searched: an absent object has position 0 and visibility 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, SupportsIndex

import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError, suggestion
from gymlab.core.types import Json
from gymlab.envs.games.atari.emulator import AtariWrapper, EmulatorSettings
from gymlab.envs.gymnasium_types import Env, Info, ResetResult, StepResult
from gymlab.envs.wrappers import parse_settings

Point = tuple[float, float] | None  # the top left corner on the screen of 160 x 210 pixels; None: not to be seen


class TrackedObject(NamedTuple):
    """One coordinate or moving thing of a game."""

    name: str
    axes: str  # "x", "y" or "xy": the ways in which it moves; a paddle has one, a ball two
    extent: tuple[float, float]  # width and height in pixels
    fastest: float  # pixels in a decision of four frames: the velocity that counts as 1
    read: Callable[[bytes | np.ndarray], Point]


class Wheel(NamedTuple):
    """What the player turns. The paddle follows some frames late, and not at all while the wheel is past its way's end:
    without the wheel one cannot tell where a moving paddle will stop, nor how long one at the edge will stay there.
    """

    back: str  # the word in ALE's names of the actions that turn it towards smaller coordinates
    on: str
    middle: float  # where the paddle rests with the wheel in the middle, where it is when a game begins
    pixels: float  # the way of the paddle for a frame's turning


class GameMemory(NamedTuple):
    """A game's objects in memory, and its controls."""

    objects: tuple[TrackedObject, ...]  # what the player moves is the first, the ball the last
    wheel: Wheel | None  # None: unknown
    walls: tuple[float, float] | None  # rows between which the ball's way is straight; None: other things bend it too
    actions: tuple[str, ...]  # ALE's names, one per action of ours
    labels: tuple[str, ...]
    fires_when_missing: str  # the object without which FIRE is pressed; "" where the game serves by itself


def pong() -> GameMemory:
    return GameMemory(
        objects=(
            TrackedObject("player", "y", (4, 16), 24, lambda ram: (140.0, int(ram[51]) - 13.0) if ram[51] else None),
            TrackedObject("enemy", "y", (4, 16), 8, lambda ram: (16.0, int(ram[50]) - 15.0) if ram[50] > 33 else None),
            TrackedObject("ball", "xy", (2, 4), 16, _pong_ball),
        ),
        wheel=Wheel(back="RIGHT", on="LEFT", middle=96, pixels=5.72),
        walls=(31, 192),
        actions=("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"),  # FIRE makes a ball that is hit faster
        labels=("stay", "fire", "up", "down", "up and fire", "down and fire"),
        fires_when_missing="",
    )


def breakout() -> GameMemory:
    return GameMemory(
        objects=(
            TrackedObject("paddle", "x", (16, 4), 24, lambda ram: (int(ram[72]) - 47.0, 189.0) if ram[72] else None),
            TrackedObject(
                "ball", "xy", (2, 4), 16, lambda ram: (int(ram[99]) - 49.0, int(ram[101]) + 9.0) if ram[101] else None
            ),
        ),
        wheel=None,
        walls=None,
        actions=("NOOP", "RIGHT", "LEFT"),
        labels=("stay", "right", "left"),
        fires_when_missing="ball",
    )


GAMES = {"pong": pong, "breakout": breakout}
_CENTRE = {"x": 80.0, "y": 114.0}
_HALF = {"x": 80.0, "y": 96.0}
_NEAR = 24.0  # pixels between the middles of ball and paddle that count as 1: a hit is within 10
_FINE = 4.0  # pixels beyond a paddle's end that count as 1
_SOON = 8.0  # decisions until the ball is at a paddle that count as 1
_TURNS = (790_196 - 27_450) / 2 / 23_000  # frames that turn ALE's wheel from the middle to either end


def _pong_ball(ram: bytes | np.ndarray) -> Point:
    x, y = int(ram[49]) - 49.0, int(ram[54]) - 14.0
    return (x, y) if ram[54] and ram[49] and y > 30 else None


class ObjectSettings(EmulatorSettings):
    """The arguments of `objects`."""

    episodic_point: bool = False
    """As `episodic_life`, for a point of either side: who wins it counts then, not how soon the next begins."""
    edges: bool = False
    """In Pong, to the pixel: where on the paddle the ball will be, and by how much it will miss; as the paddle stands
    and as it will stop."""


class AtariObjects(AtariWrapper):
    """Per object: its coordinates and velocities, about [-1, 1], and whether it is there; then, finer, how far the ball
    is from each paddle along the paddle's way; in Pong where and when it will be at each paddle, and the wheel; then
    the last action.

    `names` are the components. A velocity is the way since the last decision; 0 where an object has just appeared.
    """

    Settings = ObjectSettings  # its arguments
    settings: ObjectSettings

    def __init__(self, env: Env, **options: Json) -> None:
        settings = parse_settings(self.Settings, "objects", options)
        super().__init__(env, settings)
        self._reports_part_over = settings.episodic_life or settings.episodic_point
        game = getattr(env.unwrapped, "_game", "")
        if game not in GAMES:
            raise UserError(f"wrapper 'objects' does not know the memory of '{game}': {suggestion(game, GAMES)}")
        self.game = GAMES[game]()
        if settings.edges and not (self.game.wheel and self.game.walls):
            raise UserError(f"wrapper 'objects', edges: true: '{game}' has none that are known: leave it out")
        by_name = {action.name: action for action in self.actions}
        self._choices = [by_name[name] for name in self.game.actions]
        self._before: list[Point] = []
        self._now: list[Point] = []
        self._turned = 0.0  # the wheel, in frames from its middle
        self.names = _names(self.game, settings.edges)
        self.action_labels = self.game.labels
        self.action_space = spaces.Discrete(len(self._choices))
        self.observation_space = spaces.Box(-1.0, 1.0, (len(self.names),), np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        del options
        info = self.begin(seed)
        self._turned = 0.0
        self._now = self.positions()
        self._before = self._now
        return self._observe(0), info

    def step(self, action: SupportsIndex) -> StepResult:
        missing = self.game.fires_when_missing
        serves = missing and self._now[[seen.name for seen in self.game.objects].index(missing)] is None
        done = self.play(self._fire if serves and self._fire is not None else self._choices[action])
        self._before = self._now
        self._now = self.positions()
        lost = done.life_lost and self.settings.episodic_life
        scored = done.reward and self.settings.episodic_point
        info = self._info(part_over=bool(lost or scored))
        return self._observe(int(action)), done.reward, done.terminated, done.truncated, info

    def frame_done(self, frame: int) -> None:
        del frame
        if wheel := self.game.wheel:
            turn = (wheel.on in self._last.name) - (wheel.back in self._last.name)
            self._turned = min(max(self._turned + turn, -_TURNS), _TURNS)

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
        paddles = [i for i, seen in enumerate(self.game.objects) if len(seen.axes) == 1]
        numbers += [self._from_paddle(i) for i in paddles]
        if self.game.walls:
            for i in paddles:
                numbers += self._ahead(i)
        if self.game.wheel:
            numbers += self._wheel(self.game.wheel)
            if self.settings.edges:
                numbers += self._edges(self.game.wheel)
        numbers += [float(action == i) for i in range(len(self._choices))]
        return np.clip(np.array(numbers, np.float32), -1.0, 1.0)

    def _from_paddle(self, which: int) -> float:
        paddle = self._now[which]
        ball = self._now[-1]
        if paddle is None or ball is None:
            return 0.0
        seen = self.game.objects[which]
        i = "xy".index(seen.axes)
        return (ball[i] - paddle[i] + (self.game.objects[-1].extent[i] - seen.extent[i]) / 2) / _NEAR

    def _ahead(self, which: int) -> tuple[float, float]:
        """How far from the paddle's middle the ball will cross its line, and when; (0, 1) while it flies elsewhere."""
        seen = self.game.objects[which]
        paddle = self._now[which]
        crossing = self._crossing(which)
        if paddle is None or crossing is None:
            return 0.0, 1.0
        y, decisions = crossing
        return (y - paddle[1] - seen.extent[1] / 2) / _NEAR, decisions / _SOON

    def _crossing(self, which: int, deep: float = 0.0) -> tuple[float, float] | None:
        """The row of the ball's middle where it is so many pixels past the paddle's line, and in how many decisions."""
        paddle = self._now[which]
        before = self._before[-1]
        ball = self._now[-1]
        if paddle is None or before is None or ball is None or ball[0] == before[0] or self.game.walls is None:
            return None
        seen = self.game.objects[which]
        extent = self.game.objects[-1].extent
        vx = ball[0] - before[0]
        vy = ball[1] - before[1]
        line = paddle[0] - extent[0] + deep if vx > 0 else paddle[0] + seen.extent[0] - deep
        decisions = (line - ball[0]) / vx
        if decisions < 0:
            return None
        return _between(ball[1] + vy * decisions, *self.game.walls) + extent[1] / 2, decisions

    def _wheel(self, wheel: Wheel) -> tuple[float, float]:
        """How far it is turned, and how far the paddle is from where it is bound to stop."""
        paddle = self._now[0]
        axis = self.game.objects[0].axes
        lag = 0.0 if paddle is None else self._stop(wheel) - paddle["xy".index(axis)]
        return self._turned / _TURNS, lag / _NEAR

    def _edges(self, wheel: Wheel) -> list[float]:
        """For the paddle as it stands and as it will stop: where the ball will be on it, and how far beyond its end."""
        paddle = self._now[0]
        crossing = self._crossing(0, deep=1.0)
        if paddle is None or crossing is None:
            return [0.0] * 4
        tall = self.game.objects[0].extent[1]
        reach = (tall + self.game.objects[-1].extent[1]) / 2
        numbers = []
        for top in (paddle[1], self._stop(wheel)):
            off = crossing[0] - top - tall / 2
            numbers += [off / reach, (abs(off) - reach) / _FINE]
        return numbers

    def _stop(self, wheel: Wheel) -> float:
        return wheel.middle + wheel.pixels * self._turned


def _between(y: float, low: float, high: float) -> float:
    """Where something ends up that would be at y if the two walls did not throw it back."""
    way = (y - low) % (2 * (high - low))
    return low + min(way, 2 * (high - low) - way)


def _names(game: GameMemory, edges: bool) -> tuple[str, ...]:
    names: list[str] = []
    for seen in game.objects:
        names += [f"{seen.name}_{axis}" for axis in seen.axes]
        names += [f"{seen.name}_v{axis}" for axis in seen.axes]
        names.append(f"{seen.name}_visible")
    paddles = [seen.name for seen in game.objects if len(seen.axes) == 1]
    names += [f"ball_from_{paddle}" for paddle in paddles]
    if game.walls:
        names += [f"ball_{what}_{paddle}" for paddle in paddles for what in ("meets", "reaches")]
    if game.wheel:
        names += ["wheel", f"{game.objects[0].name}_lag"]
        if edges:
            names += [f"ball_{what}_{where}" for where in ("player", "stop") for what in ("on", "beyond")]
    return (*names, *(f"last_{label}" for label in game.labels))
