"""The engine for Atari images over ale-py's vector env: frames are emulated and downscaled in native threads.

It follows `games/atari`. Without sticky actions both give the same episodes from the same seeds, and pictures within
one grey level of 255. With them each draws the held frames from a generator of its own: other episodes, equal in
distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Array, Spaces, VecStep
from gymlab.envs.engines.base import NativeEngine
from gymlab.envs.games.atari.emulator import DEFAULT_FRAMESKIP
from gymlab.envs.games.atari.pictures import PictureSettings
from gymlab.envs.make import split_wrappers, time_limit
from gymlab.envs.registry import resolve_id
from gymlab.envs.replay_log import Progress, Snapshot
from gymlab.envs.settings import EnvKwargs, EnvSettings
from gymlab.envs.wrappers import arguments, load_wrapper, parse_settings

if TYPE_CHECKING:
    from ale_py.vector_env import AtariVectorEnv

_KNOWN = frozenset(
    {"game", "frameskip", "repeat_action_probability", "full_action_space", "max_num_frames_per_episode"}
)


def unsupported_reason(settings: EnvSettings) -> str:
    """Why the native engine does not support this env; "" where it does."""
    if not resolve_id(settings.id).id.startswith("ALE/"):
        return f"{settings.id} is no Atari game"
    env_side, _ = split_wrappers(settings)
    if [part.name for part in env_side] != ["atari"]:
        return "it needs the wrapper 'atari', and no other around the env"
    foreign = sorted(set(_game(settings)) - _KNOWN)
    return f"env.kwargs: '{foreign[0]}' is not known to it" if foreign else ""


class AleEngine(NativeEngine):
    """A HostEngine. All envs are stepped together, so `step` takes no `active`: evaluation uses the Python path."""

    name = "ale"
    restorable = True

    def __init__(
        self,
        settings: EnvSettings,
        n_envs: int,
        run_seed: int,
        *,
        evaluation: bool = False,
        imports: tuple[str, ...] = (),
        threads: int = 0,
    ) -> None:
        super().__init__(n_envs, imports, run_seed, evaluation)
        problem = unsupported_reason(settings)
        if problem:
            raise UserError(f"engine: ale cannot run this recipe ({problem}): use engine: auto")
        (part,) = split_wrappers(settings)[0]
        self.pictures = parse_settings(PictureSettings, "atari", arguments(part, load_wrapper("atari")))
        limit = time_limit(settings)
        game = _game(settings)
        asked = self.pictures.repeat_action_probability
        self.sticky: float = game.get("repeat_action_probability", 0.25) if asked is None else asked
        self._env = _native(self.pictures, game, self.sticky, n_envs, evaluation, threads)
        own = self._env.single_action_space
        assert isinstance(own, spaces.Discrete), "ale-py has no other"
        actions = spaces.Discrete(int(own.n))
        self._allocate(Spaces(_observation_space(self.pictures), actions, False, limit))
        self._loses_lives = self.pictures.episodic_life and not evaluation
        self._lives = np.zeros(n_envs, np.int32)
        self._started = False

    def reset(self, episode: int | None = None) -> VecStep:
        """Start every env's next episode, or the one with the given index."""
        if episode is not None:
            self.history.episode[:] = episode - 1
        self._begin(np.ones(self.n_envs, bool))
        self._buffer.arrays.fresh.fill(True)
        return self._buffer.without_transition()

    def step(self, action: Array, active: np.ndarray | None = None) -> VecStep:
        """One decision of every env."""
        assert active is None or active.all(), "the native engine steps all envs"
        actions = np.array(action, self.history.dtype)
        self.history.append(actions)
        step = self._buffer.step
        over, lives = self._play(actions)
        self.history.elapsed += 1
        if self._loses_lives:  # each is reported as an ending; the game goes on while some are left
            over = over & ~((lives < self._lives) & (lives > 0))
        # Counted here: at a limit of its own, the native env does not take the last frame into the picture.
        _, terminated, truncated, fresh = self._buffer.arrays
        np.logical_and(self.history.elapsed >= self.spaces.max_episode_steps, ~terminated, out=truncated)
        np.logical_or(truncated, over, out=fresh)
        self._lives = lives.copy()
        if fresh.any():
            self._begin(fresh)
        return step

    def _play(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step the native envs into the buffer; which games or lives are over, and the lives left."""
        step = self._buffer.step
        obs, reward, over, _, info = self._env.step(actions)
        self._show(obs, step.obs)
        np.copyto(step.successor, step.obs)
        step.reward[:] = reward
        step.terminated[:] = over
        self._buffer.digest.add_all()
        return over, info["lives"]

    def close(self) -> None:
        self._env.close()

    def _replay(self, snapshot: Snapshot, progress: Progress | None) -> None:
        """All envs are stepped together, so those of short episodes begin theirs late."""
        elapsed = snapshot["elapsed"]
        ends = np.cumsum(elapsed)
        longest = int(elapsed.max())
        self.history.episode[:] = snapshot["episode"] - 1
        self._begin(elapsed == longest, everyone=True)
        for t in range(longest):
            replayed = t - (longest - elapsed)  # steps that each env has already replayed; below 0: not begun
            at = np.where(replayed >= 0, ends - elapsed + replayed, 0)
            actions = np.where(replayed >= 0, snapshot["actions"][at], 0).astype(self.history.dtype)
            self._play(actions)
            due = elapsed == longest - t - 1
            if due.any():
                self._begin(due)
            if progress is not None and t % 256 == 0:
                progress(t * self.n_envs, longest * self.n_envs)

    def _begin(self, rows: np.ndarray, *, everyone: bool = False) -> None:
        """Start the next episode of some envs; the native reset needs all of them the first time."""
        self.history.episode[rows] += 1
        self.history.elapsed[rows] = 0
        chosen = np.ones(self.n_envs, bool) if everyone or not self._started else rows
        seeds = [self._seed(row, max(int(self.history.episode[row]), 0)) for row in np.flatnonzero(chosen).tolist()]
        obs, info = self._env.reset(seed=np.array(seeds, np.int32), options={"reset_mask": chosen})
        self._started = True
        self._lives = info["lives"].copy()
        self._show(obs, self._buffer.step.obs, rows)
        for row in np.flatnonzero(rows).tolist():
            self._buffer.digest.begin(row)

    def _show(self, native: np.ndarray, out: np.ndarray, rows: np.ndarray | slice = slice(None)) -> None:
        """(N, stack, rows, columns[, 3]) as (N, rows, columns, stack * channels).

        Picture by picture: five times as fast as one assignment, whose inner loop would be the stack.
        """
        stack = native.shape[1]
        pictures = out.reshape(*out.shape[:-1], stack, -1)
        shown = native[..., None] if native.ndim == 4 else native
        for k in range(stack):
            pictures[rows, :, :, k] = shown[rows, k]


def _game(settings: EnvSettings) -> EnvKwargs:
    resolved = resolve_id(settings.id)
    return {**gymnasium.spec(resolved.id).kwargs, **resolved.kwargs, **settings.kwargs}


def _observation_space(pictures: PictureSettings) -> spaces.Box:
    channels = pictures.stack * (1 if pictures.grayscale else 3)
    return spaces.Box(0, 255, (*pictures.size, channels), np.uint8)


def _native(
    pictures: PictureSettings, game: EnvKwargs, sticky: float, n_envs: int, evaluation: bool, threads: int
) -> AtariVectorEnv:
    from ale_py.vector_env import AtariVectorEnv

    own = game.get("frameskip")
    skip = pictures.frameskip or (own if isinstance(own, int) and own > 1 else DEFAULT_FRAMESKIP)
    return AtariVectorEnv(
        game["game"],
        n_envs,
        num_threads=threads,
        frameskip=skip,
        max_num_frames_per_episode=10**9,
        repeat_action_probability=sticky,
        full_action_space=game.get("full_action_space", False),
        img_height=pictures.size[0],
        img_width=pictures.size[1],
        grayscale=pictures.grayscale,
        stack_num=pictures.stack,
        maxpool=pictures.max_pool,
        noop_max=pictures.noop_max,
        use_fire_reset=pictures.fire_reset,
        episodic_life=False,
        life_loss_info=pictures.episodic_life and not evaluation,
        reward_clipping=False,
    )
