"""Watching or playing an env: by a run's policy, at random, or with the keyboard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gymlab.core.errors import UserError
from gymlab.core.rng import episode_seed, generator
from gymlab.envs.make import Env, import_all, make_env
from gymlab.envs.settings import EnvSettings
from gymlab.envs.wrapper_stacks import evaluation_settings
from gymlab.media.action_keys import Keys, keys_for, named
from gymlab.media.camera import DEFAULT_FPS, Camera, enlarged, make_filmed
from gymlab.media.episode_trace import Moment, Wanted, label_of
from gymlab.media.overlay import Caption, Overlay, bars_of
from gymlab.media.policy_player import Stage, action_labels
from gymlab.media.writer import FilmWriter
from gymlab.recipes.schema import Recipe
from gymlab.training.state import Policy

HAND_FPS = 15  # steps per second at most that a hand can follow
QUIT = ("q", "escape")
PAUSE = "p"
NEXT = "n"


class Screen(Protocol):
    def show(self, picture: np.ndarray | str, caption: list[str], *, now: bool = False) -> None: ...
    def keys(self, seconds: float) -> list[str]: ...


class Quit(Exception):
    """Whoever watches has seen enough."""


@dataclass(frozen=True)
class Pace:
    """How fast steps follow each other."""

    fps: float | None = None  # None: the env's own
    slow: float = 1.0  # times slower
    by_step: bool = False  # every step waits for a key

    def seconds(self, env_fps: float) -> float:
        return self.slow / (self.fps or env_fps)


@dataclass(frozen=True)
class Played:
    total: float
    length: int
    ended: str


class Show:
    """One sitting: what is seen is also written to a film, if one is wanted."""

    def __init__(self, env: Env, screen: Screen, pace: Pace, title: str, record: Path | None = None) -> None:
        self.env = env
        self.screen = screen
        self.pace = pace
        self.title = title
        self._record = record
        self.env_fps = env.fps if isinstance(env, Camera) else DEFAULT_FPS
        self.help = ""
        self._paused = pace.by_step
        self._film: FilmWriter | None = None
        self._overlay: Overlay | None = None
        self._due = time.monotonic()

    def __enter__(self) -> Show:
        self._leaving = ExitStack()
        if self._record is not None:
            if not isinstance(self.env, Camera):
                raise UserError("--record: this env has no pictures to film")
            self._film = self._leaving.enter_context(FilmWriter(self._record, self.env_fps, {"title": self.title}))
        return self

    def __exit__(self, *raised: Any) -> None:
        if raised[0] is not None and issubclass(raised[0], Quit):
            raised = (None, None, None)
        if self._film is not None and not self._film.frames:
            self._film.add(self.look())
        self._leaving.__exit__(*raised)

    def look(self) -> Any:
        """A picture of the env or, where it has none, what it says of itself."""
        if isinstance(self.env, Camera):
            return self.env.picture()
        drawn: Any = self.env.render() if self.env.render_mode == "ansi" else ""
        return drawn if isinstance(drawn, str) else "\n".join(map(str, drawn))

    def moment(self, moment: Moment, *, wait: bool = True) -> list[str]:
        """Show a decision before it is carried out; the keys that were pressed until it is time for it."""
        picture = self.look()
        value = "" if np.isnan(moment.value) else f" · value {moment.value:.3g}"
        where = f"step {moment.step} · return {moment.return_so_far:.5g}{value} · {moment.label}"
        keys = " · ".join(filter(None, [self.help, "p pause", "n next step", "q quit"]))
        self.screen.show(picture, [f"{self.title} · {where}", keys], now=self._paused)
        if self._film is not None:
            self._film.add(self._captioned(picture, moment))
        return self._pass_time() if wait else []

    def _pass_time(self) -> list[str]:
        self._due = max(self._due + self.pace.seconds(self.env_fps), time.monotonic() - 0.5)
        pressed = self._heard(max(0.0, self._due - time.monotonic()))
        while (left := self._due - time.monotonic()) > 0.001 and not self._paused:
            pressed += self._heard(left)
            if not self._live:
                break
        while self._paused:
            keys = self._heard(0.1)
            pressed += keys
            if NEXT in keys or "enter" in keys or "space" in keys or any(named(key) in ARROW_KEYS for key in keys):
                break
            if not self._live:
                break
        return pressed

    @property
    def _live(self) -> bool:
        from gymlab.media.terminal_window import NoScreen

        return not isinstance(self.screen, NoScreen)

    def _heard(self, seconds: float) -> list[str]:
        keys = self.screen.keys(seconds)
        if any(key in QUIT for key in keys):
            raise Quit
        if PAUSE in keys:
            self._paused = not self._paused
            self._due = time.monotonic()
        return keys

    def wait_for_key(self, wanted: dict[str, Any]) -> str:
        """The first key that means something."""
        while True:
            for key in self._heard(0.2):
                if named(key) in wanted:
                    self._due = time.monotonic()
                    return named(key)
            if not self._live:
                raise UserError("--policy user needs a terminal or a window to read keys from")

    def _captioned(self, picture: np.ndarray, moment: Moment) -> np.ndarray:
        picture = enlarged(picture)
        if self._overlay is None:
            self._overlay = Overlay(picture.shape[1])
        bars = bars_of(self.env.action_space, moment.action, moment.probabilities, (), moment.label)
        return self._overlay.below(picture, Caption(moment.step, moment.return_so_far, moment.value, bars, self.title))


ARROW_KEYS = ("left", "right", "up", "down")


def open_env(recipe: Recipe) -> Env:
    """The env with pictures, or with text, or at least with numbers."""
    settings = evaluation_settings(recipe.env)
    import_all(recipe.imports)
    try:
        return make_filmed(settings, recipe.imports)
    except UserError:
        return _with_text(settings)


def _with_text(settings: EnvSettings) -> Env:
    plain = make_env(settings)
    if "ansi" not in (plain.metadata.get("render_modes") or ()):
        return plain
    plain.close()
    return make_env(settings, render_mode="ansi")


def watch(show: Show, stage: Stage, policy: Policy, wanted: Wanted, episodes: int) -> Iterator[Played]:
    """A run's policy plays."""
    for number in range(episodes):
        episode = stage.play(policy, wanted, lambda moment: ignore(show.moment(moment)), episode=number)
        yield Played(episode.total, len(episode.rows), episode.ended)


def ignore(_: object) -> None:
    """Keys mean nothing to a policy."""


def by_hand(show: Show, recipe: Recipe, seed: int, episodes: int) -> Iterator[Played]:
    """The keyboard plays."""
    space = show.env.action_space
    labels = action_labels(space, recipe.env.actions, show.env)
    keys = keys_for(space, labels, show.env_fps)
    show.help = keys.help
    yield from _play(show, labels, _Hand(show, keys), seed, episodes)


def at_random(show: Show, recipe: Recipe, seed: int, episodes: int) -> Iterator[Played]:
    """Chance plays."""
    space = show.env.action_space
    labels = action_labels(space, recipe.env.actions, show.env)
    space.seed(int(generator(seed, "random play").integers(2**31)))

    def choose(moment: Callable[[Any], Moment]) -> Any:
        action = space.sample()
        show.moment(moment(action))
        return action

    yield from _play(show, labels, choose, seed, episodes)


class _Hand:
    """The action of the key pressed last."""

    def __init__(self, show: Show, keys: Keys) -> None:
        self._show = show
        self._keys = keys
        self._held = keys.idle

    def __call__(self, moment: Callable[[Any], Moment]) -> Any:
        keys = self._keys
        shown = moment(self._held)
        if shown.step == 0:  # a new episode is not lost to the key that ended the last one
            self._held = keys.idle
            shown = moment(keys.idle)
        if keys.turns or self._held is None:
            self._show.moment(shown, wait=False)
            self._held = keys.actions[self._show.wait_for_key(keys.actions)]
            return self._held
        pressed = [named(key) for key in self._show.moment(shown) if named(key) in keys.actions]
        if pressed:
            self._held = keys.actions[pressed[-1]]
        elif keys.idle is not None:
            self._held = keys.idle
        return self._held


def _play(
    show: Show, labels: tuple[str, ...], choose: Callable[[Callable[[Any], Moment]], Any], seed: int, episodes: int
) -> Iterator[Played]:
    env = show.env
    start = int(getattr(env.action_space, "start", 0)) if labels and hasattr(env.action_space, "n") else 0
    for number in range(episodes):
        obs, _ = env.reset(seed=episode_seed(seed, 0, number, evaluation=True))
        total = 0.0
        step = 0
        ended = ""
        while not ended:

            def moment(action: Any, obs: Any = obs, step: int = step, total: float = total) -> Moment:
                given = np.asarray(0 if action is None else action)
                label = (
                    "press a key" if action is None else label_of(given - start if given.ndim == 0 else given, labels)
                )
                return Moment(step, obs, given, label, float("nan"), (), float("nan"), total)

            obs, reward, terminated, truncated, _ = env.step(choose(moment))
            total = total + float(reward)
            step = step + 1
            ended = "terminated" if terminated else "truncated" if truncated else ""
        yield Played(total, step, ended)
