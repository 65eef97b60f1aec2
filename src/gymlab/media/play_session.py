"""Play session (`gymlab play`): an env on a screen, played by a policy, at random or by keyboard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeAlias

import numpy as np

from gymlab.core.errors import UserError
from gymlab.core.rng import episode_seed, generator
from gymlab.core.types import Tree
from gymlab.envs.gymnasium_types import Env, EnvValue
from gymlab.envs.make import import_all, make_env
from gymlab.envs.settings import EnvSettings
from gymlab.envs.wrapper_stacks import evaluation_settings
from gymlab.media.action_keys import ActionKeys, arrow_of, keys_for
from gymlab.media.camera import DEFAULT_FPS, Camera, enlarged, make_filmed, rendered_text
from gymlab.media.episode_trace import TraceDecision, action_label
from gymlab.media.overlay import Caption, Overlay, bars_of
from gymlab.media.policy_player import EpisodeOptions, PolicyPlayer, action_labels
from gymlab.media.video_file import FilmWriter
from gymlab.recipes.schema import Recipe
from gymlab.training.state import Policy

HAND_FPS = 15  # steps per second at most that a hand can follow
QUIT = ("q", "escape")
PAUSE = "p"
NEXT = "n"


class PlayScreen(Protocol):
    def show(self, picture: np.ndarray | str, caption: list[str], *, now: bool = False) -> None: ...
    def keys(self, seconds: float) -> list[str]: ...


class Quit(Exception):
    """The user pressed q or escape."""


@dataclass(frozen=True)
class Pace:
    """The speed of steps."""

    fps: float | None = None  # None: the env's own
    slow: float = 1.0  # times slower
    by_step: bool = False  # every step waits for a key

    def seconds(self, env_fps: float) -> float:
        return self.slow / (self.fps or env_fps)


@dataclass(frozen=True)
class PlayResult:
    """An episode that was played."""

    total: float
    length: int
    ended: str


# Shows a decision before it is made; None: not known yet.
Decide: TypeAlias = "Callable[[EnvValue | None], TraceDecision]"


class PlaySession:
    """Shows an env on a screen at a pace, reads keys, and optionally records a film."""

    def __init__(self, env: Env, screen: PlayScreen, pace: Pace, title: str, record: Path | None = None) -> None:
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

    def __enter__(self) -> PlaySession:
        self._leaving = ExitStack()
        if self._record is not None:
            if not isinstance(self.env, Camera):
                raise UserError("--record: this env has no pictures to film")
            self._film = self._leaving.enter_context(FilmWriter(self._record, self.env_fps, {"title": self.title}))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and issubclass(kind, Quit):
            kind, error, trace = None, None, None
        if self._film is not None and not self._film.frames and isinstance(self.env, Camera):
            self._film.add(self.env.picture())
        self._leaving.__exit__(kind, error, trace)

    def picture(self) -> np.ndarray | str:
        """A picture of the env, or its text rendering."""
        if isinstance(self.env, Camera):
            return self.env.picture()
        return rendered_text(self.env) if self.env.render_mode == "ansi" else ""

    def show(self, decision: TraceDecision, *, wait: bool = True) -> list[str]:
        """Show a decision before it is carried out; the keys pressed until its time has come."""
        picture = self.picture()
        value = "" if np.isnan(decision.value) else f" · value {decision.value:.3g}"
        where = f"step {decision.step} · return {decision.return_so_far:.5g}{value} · {decision.label}"
        keys = " · ".join(filter(None, [self.help, "p pause", "n next step", "q quit"]))
        self.screen.show(picture, [f"{self.title} · {where}", keys], now=self._paused)
        if self._film is not None and isinstance(picture, np.ndarray):
            self._film.add(self._captioned(picture, decision))
        return self._pass_time() if wait else []

    def _pass_time(self) -> list[str]:
        self._due = max(self._due + self.pace.seconds(self.env_fps), time.monotonic() - 0.5)
        pressed = self._read_keys(max(0.0, self._due - time.monotonic()))
        while (left := self._due - time.monotonic()) > 0.001 and not self._paused:
            pressed += self._read_keys(left)
            if not self._live:
                break
        while self._paused:
            keys = self._read_keys(0.1)
            pressed += keys
            if NEXT in keys or "enter" in keys or "space" in keys or any(arrow_of(key) in ARROW_KEYS for key in keys):
                break
            if not self._live:
                break
        return pressed

    @property
    def _live(self) -> bool:
        from gymlab.media.terminal_window import NoScreen

        return not isinstance(self.screen, NoScreen)

    def _read_keys(self, seconds: float) -> list[str]:
        keys = self.screen.keys(seconds)
        if any(key in QUIT for key in keys):
            raise Quit
        if PAUSE in keys:
            self._paused = not self._paused
            self._due = time.monotonic()
        return keys

    def wait_for_key(self, bindings: dict[str, EnvValue]) -> str:
        """The first key that has a binding."""
        while True:
            for key in self._read_keys(0.2):
                if arrow_of(key) in bindings:
                    self._due = time.monotonic()
                    return arrow_of(key)
            if not self._live:
                raise UserError("--policy user needs a terminal or a window to read keys from")

    def _captioned(self, picture: np.ndarray, decision: TraceDecision) -> np.ndarray:
        picture = enlarged(picture)
        if self._overlay is None:
            self._overlay = Overlay(picture.shape[1])
        bars = bars_of(self.env.action_space, decision.action, decision.probabilities, (), decision.label)
        return self._overlay.below(
            picture, Caption(decision.step, decision.return_so_far, decision.value, bars, self.title)
        )


ARROW_KEYS = ("left", "right", "up", "down")


def open_env(recipe: Recipe) -> Env:
    """The env with pictures, or else with text, or else without rendering."""
    settings = evaluation_settings(recipe.env)
    import_all(recipe.imports)
    try:
        return make_filmed(settings, recipe.imports)
    except UserError:
        return _with_text(settings)


def _with_text(settings: EnvSettings) -> Env:
    unrendered = make_env(settings)
    if "ansi" not in (unrendered.metadata.get("render_modes") or ()):
        return unrendered
    unrendered.close()
    return make_env(settings, render_mode="ansi")


def play_policy(
    session: PlaySession, player: PolicyPlayer, policy: Policy, options: EpisodeOptions, episodes: int
) -> Iterator[PlayResult]:
    """Episodes of a run's policy."""

    def show(decision: TraceDecision) -> None:
        session.show(decision)  # keys do not change what a policy does

    for number in range(episodes):
        episode = player.play(policy, options, show, episode=number)
        yield PlayResult(episode.total, len(episode.rows), episode.ended)


def play_by_hand(session: PlaySession, recipe: Recipe, seed: int, episodes: int) -> Iterator[PlayResult]:
    """Episodes with actions from the keyboard."""
    space = session.env.action_space
    labels = action_labels(space, recipe.env.actions, session.env)
    keys = keys_for(space, labels, session.env_fps)
    session.help = keys.help
    yield from _play(session, labels, _KeyboardPolicy(session, keys), seed, episodes)


def play_at_random(session: PlaySession, recipe: Recipe, seed: int, episodes: int) -> Iterator[PlayResult]:
    """Episodes with random actions."""
    space = session.env.action_space
    labels = action_labels(space, recipe.env.actions, session.env)
    space.seed(int(generator(seed, "random play").integers(2**31)))

    def choose(decision: Decide) -> EnvValue:
        action = space.sample()
        session.show(decision(action))
        return action

    yield from _play(session, labels, choose, seed, episodes)


class _KeyboardPolicy:
    """Chooses the action of the key pressed last."""

    def __init__(self, session: PlaySession, keys: ActionKeys) -> None:
        self._session = session
        self._keys = keys
        self._held = keys.idle

    def __call__(self, decide: Decide) -> EnvValue:
        keys = self._keys
        decision = decide(self._held)
        if decision.step == 0:  # the key held at the end of the last episode does not act in the next
            self._held = keys.idle
            decision = decide(keys.idle)
        if keys.turns or self._held is None:
            self._session.show(decision, wait=False)
            self._held = keys.actions[self._session.wait_for_key(keys.actions)]
            return self._held
        pressed = [arrow_of(key) for key in self._session.show(decision) if arrow_of(key) in keys.actions]
        if pressed:
            self._held = keys.actions[pressed[-1]]
        elif keys.idle is not None:
            self._held = keys.idle
        return self._held


def _play(
    session: PlaySession,
    labels: tuple[str, ...],
    choose: Callable[[Decide], EnvValue],
    seed: int,
    episodes: int,
) -> Iterator[PlayResult]:
    env = session.env
    start = int(getattr(env.action_space, "start", 0)) if labels and hasattr(env.action_space, "n") else 0
    for number in range(episodes):
        obs, _ = env.reset(seed=episode_seed(seed, 0, number, evaluation=True))
        total = 0.0
        step = 0
        ended = ""
        while not ended:

            def decision(
                action: EnvValue | None, obs: Tree = obs, step: int = step, total: float = total
            ) -> TraceDecision:
                array = np.asarray(0 if action is None else action)
                label = (
                    "press a key"
                    if action is None
                    else action_label(array - start if array.ndim == 0 else array, labels)
                )
                return TraceDecision(step, obs, array, label, float("nan"), (), float("nan"), total)

            obs, reward, terminated, truncated, _ = env.step(choose(decision))
            total = total + float(reward)
            step = step + 1
            ended = "terminated" if terminated else "truncated" if truncated else ""
        yield PlayResult(total, step, ended)
