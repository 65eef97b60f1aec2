"""Emulation of an ALE game by decisions: frame skip, sticky actions, no-ops at the start, lives, time limit.

The native vector path (`engines/ale.py`) follows the same rules. Without sticky actions both give the same frames; with
them, each path draws from a generator of its own, so that its games are equal in distribution only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from pydantic import Field

from gymlab.core.clock import Count, Number
from gymlab.core.errors import UserError
from gymlab.core.settings import Settings

if TYPE_CHECKING:
    from ale_py import Action, ALEInterface, ALEState
from gymlab.envs.gymnasium_types import Env, EnvWrapper, Info

DEFAULT_FRAMESKIP = 4
_GYMNASIUMS = (OrderEnforcing, PassiveEnvChecker, TimeLimit)  # around every env that Gymnasium makes


class EmulatorSettings(Settings):
    """What one decision and one episode are. Every value, also a default, is in the manifest."""

    frameskip: Annotated[Count, Field(ge=1, le=100)] | None = None
    """Frames for which an action is held; default: the env's own, or 4 where that is 1."""
    repeat_action_probability: Annotated[Number, Field(ge=0, lt=1)] | None = None
    """Chance of each frame to repeat the last action instead (sticky actions); default: the env's own, 0.25 in v5."""
    noop_max: Annotated[Count, Field(ge=0, le=10_000)] = 30
    """Episodes begin with 0 to noop_max - 1 idle frames, drawn from the episode's seed."""
    fire_reset: bool = True
    """Press FIRE once when an episode begins, in games that have it."""
    episodic_life: bool = False
    """In training, a lost life ends what is bootstrapped over; the game goes on. Evaluation plays whole games."""


class AtariDecision(NamedTuple):
    """The result of one decision."""

    reward: float
    terminated: bool
    truncated: bool
    life_lost: bool


def noop_count(seed: int, noop_max: int) -> int:
    """How many idle frames an episode begins with.

    The native path's draw, number by number: the first output of a Mersenne twister scaled to the range without bias.
    """
    if noop_max < 1:
        return 0
    words: Any = np.random.RandomState(seed)._bit_generator
    while True:
        product = int(words.random_raw()) * noop_max
        if product & 0xFFFFFFFF >= (2**32 - noop_max) % noop_max:
            return product >> 32


class AtariWrapper(EnvWrapper, RecordConstructorArgs):
    """Steps the emulator of an ALE env directly, in place of that env's own step; subclasses add the observation.

    Sticky actions are drawn here, from the episode's seed: ALE's own generator can only be seeded by loading the game
    anew, which takes as long as hundreds of decisions.
    """

    def __init__(self, env: Env, settings: EmulatorSettings) -> None:
        gymnasium.Wrapper.__init__(self, env)
        inner: Any = env.unwrapped
        if not hasattr(inner, "ale") or not isinstance(env.action_space, gymnasium.spaces.Discrete):
            raise UserError(f"this wrapper needs an ALE game with discrete actions such as ALE/Pong-v5, got {env}")
        layer = env
        while isinstance(layer, gymnasium.Wrapper):
            if not isinstance(layer, _GYMNASIUMS):
                problem = f"{type(layer).__name__} inside it would not be called"
                raise UserError(f"this wrapper plays the game itself, and {problem}: put it first")
            layer = layer.env
        self.ale: ALEInterface = inner.ale
        skip = settings.frameskip
        own = inner._frameskip
        self.frameskip = skip or (own if isinstance(own, int) and own > 1 else DEFAULT_FRAMESKIP)
        sticky = settings.repeat_action_probability
        self.sticky = float(self.ale.getFloat("repeat_action_probability") if sticky is None else sticky)
        # This class does both; the settings take effect when the first reset loads the game.
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.setInt("max_num_frames_per_episode", 0)
        self.actions = list(inner._action_set)
        self.settings = settings
        self._reports_part_over = settings.episodic_life  # whether infos report that a part of the game is over
        self._fire: Action | None = next((action for action in self.actions if action.name == "FIRE"), None)
        self._fires = settings.fire_reset and self._fire is not None
        # The time limit inside counts calls of a step that is never called.
        limited = env.has_wrapper_attr("_max_episode_steps")
        self._limit = int(env.get_wrapper_attr("_max_episode_steps")) if limited else 0
        # The emulator state after a reset: restoring it takes no time, a reset with a seed loads the game anew (65 ms).
        self._start: ALEState | None = None
        self._start_screens: dict[bool, np.ndarray] = {}  # its picture, by whether it is in colour
        self._reloads = False  # whether every episode loads the game anew, as the native path does
        self._drawn = True  # whether the emulator's screen shows its state; restoring a state does not redraw
        self._seed = 0
        self._elapsed = 0
        self._lives = 0
        self._last: Action = self.actions[0]
        self._rng = np.random.default_rng(0)
        record = settings.model_dump() | {
            "frameskip": self.frameskip,
            "repeat_action_probability": round(self.sticky, 6),
            "full_action_space": bool(len(inner._action_set) == len(self.ale.getLegalActionSet())),
        }
        RecordConstructorArgs.__init__(self, **record)

    def begin(self, seed: int | None) -> Info:
        """Start the episode of a seed; without one, the episode after the last."""
        self._seed = int(self._rng.integers(2**31)) if seed is None else seed
        if self._start is None or self._reloads:
            self.env.reset(seed=self._seed)
            self._start = self.ale.cloneSystemState()
            self._start_screens = {False: self.ale.getScreenGrayscale(), True: self.ale.getScreenRGB()}
        else:
            self.ale.restoreSystemState(self._start)
            self._drawn = False
        self._rng = np.random.default_rng(self._seed)
        self._last = self.actions[0]
        if self._fires and self._fire is not None:
            self._act(self._fire)
        for _ in range(noop_count(self._seed, self.settings.noop_max) - self._fires):
            self._act(self.actions[0])
            if self.ale.game_over(with_truncation=False):
                self.ale.reset_game()
        self._elapsed = 0
        self._lives = self.ale.lives()
        return self._info(part_over=False)

    def play(self, action: Action) -> AtariDecision:
        """Hold an action (one of `actions`) for a decision's frames, or until the game is over."""
        reward = 0.0
        over = False
        draws = self._rng.random(self.frameskip) if self.sticky else None
        for frame in range(self.frameskip):
            if draws is None or draws[frame] >= self.sticky:
                self._last = action
            reward += self._act(self._last)
            over = self.ale.game_over(with_truncation=False)
            if over:
                break
            self.frame_done(frame)
        self._elapsed += 1
        lives = self.ale.lives()
        lost = 0 < lives < self._lives
        self._lives = lives
        return AtariDecision(reward, over, not over and self._elapsed == self._limit, lost)

    def render(self) -> Any:
        """The screen in colour, where the env was made to render."""
        return super().render() if self._drawn or self.render_mode != "rgb_array" else self._start_screens[True].copy()

    def read_screen(self, out: np.ndarray, *, colour: bool) -> None:
        """Copy the screen into an array of (rows, columns) or (rows, columns, 3) bytes."""
        if not self._drawn:
            np.copyto(out, self._start_screens[colour])
        elif colour:
            self.ale.getScreenRGB(out)
        else:
            self.ale.getScreenGrayscale(out)

    def _act(self, action: Action) -> float:
        self._drawn = True
        reward: float = self.ale.act(action)
        return reward

    def frame_done(self, frame: int) -> None:
        """Called after each frame that did not end the game."""

    def _info(self, part_over: bool) -> Info:
        info: Info = {"lives": self._lives}
        if self._reports_part_over:
            info["part_over"] = part_over
        return info
