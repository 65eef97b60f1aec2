"""Several environments of one process, stepped in turn: the innermost loop of every host run.

Every episode has its own seed, so an env's episode index and its actions since the reset are all that is needed to
rebuild it: that is what a snapshot holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
import traceback
from collections.abc import Callable
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from gymlab.core.errors import RunError
from gymlab.core.rng import episode_seed
from gymlab.core.types import Array, Spaces, VecStep
from gymlab.envs.buffers import BadObservation, Buffers, Put, check_supported, checked_writer, writer
from gymlab.envs.catalogue import FRESH_PER_EPISODE, resolve_id
from gymlab.envs.make import DEFAULT_TIME_LIMIT, Bare, Env, limit_inside, make_bare
from gymlab.envs.settings import EnvSettings

Factory = Callable[[int], Env]  # env index -> env object
Progress = Callable[[int, int], None]  # (steps replayed, steps to replay)
Snapshot = dict[str, np.ndarray]

_CHECKED_STEPS = 20  # observations are compared with their space this long; after that only at resets
_FIRST_ROOM = 1024  # steps the action log holds before it grows
_REPORT_SECONDS = 0.2


class Restored(NamedTuple):
    """What came back from a snapshot."""

    step: VecStep
    exact: bool  # every env stands exactly where it stood
    reason: str  # why not; "" when exact


class Slots:
    """Envs `indices` of a run. `step` and `reset` return one VecStep whose arrays the next call overwrites."""

    def __init__(
        self, settings: EnvSettings, indices: range, run_seed: int, evaluation: bool, factory: Factory | None = None
    ) -> None:
        self._settings, self._indices, self._run_seed, self._evaluation = settings, indices, run_seed, evaluation
        self._factory = factory
        self.restorable = factory is None
        self._remakes = factory is None and resolve_id(settings.id).id in FRESH_PER_EPISODE
        n = len(indices)
        self._episode, self._elapsed = np.full(n, -1, np.int64), np.zeros(n, np.int64)
        self._used = [False] * n
        first = self._make(0)
        self.envs: list[Env] = [first.env]
        check_supported(first.env.observation_space, first.env.action_space)
        # Only a reset tells whether actions are masked, so the first episode begins here; `reset` takes it over.
        self._begun: tuple[Any, dict[str, Any]] | None = self._reset_env(0, 0)
        masked = settings.action_mask and "action_mask" in self._begun[1]
        self.spaces = Spaces(first.env.observation_space, first.env.action_space, masked, first.limit)
        self._counts = not first.cuts_itself
        self.envs += [self._make(row).env for row in range(1, n)]
        self._steps = [env.step for env in self.envs]
        self._allocate(n)

    def _allocate(self, n: int) -> None:
        self.buffers = Buffers(self.spaces, n)
        step, space, action = self.buffers.step, self.spaces.observation, self.spaces.action
        obs, successor = (step.obs.obs, step.successor.obs) if self.spaces.masked else (step.obs, step.successor)
        self._put_obs: Put = checked_writer(space, obs)
        self._put_successor: Put = checked_writer(space, successor)
        self._put_unchecked: Put = writer(space, successor)
        self._to_check = _CHECKED_STEPS
        floats = [array for array in (step.reward, *self.buffers.successor_leaves) if array.dtype.kind == "f"]
        self._finite = [(array, array.reshape(-1)) for array in floats]
        self._copies = list(zip(self.buffers.obs_leaves, self.buffers.successor_leaves, strict=True))
        self._everyone, self._rows = list(range(n)), np.arange(n)
        self._log = np.zeros((n, min(_FIRST_ROOM, self.spaces.max_episode_steps), *action.shape), action.dtype)
        self._room = self._log.shape[1]  # steps until the log may be full

    def reset(self, episode: int | None = None) -> VecStep:
        """Start every env's next episode, or the one with the given index."""
        if episode is not None:
            self._episode.fill(episode - 1)
        for row in self._everyone:
            self._begin(row)
        self.buffers.step.fresh.fill(True)
        return self.buffers.still()

    def step(self, actions: Array, active: Array | None = None) -> VecStep:
        """Step every env, or only the `active` ones: the others keep their observation and are paid nothing."""
        actions = np.array(actions, self._log.dtype)  # a copy of our own: envs may keep their last action
        step, steps, order = self.buffers.step, self._steps, self._everyone
        reward, terminated, truncated, fresh = step.reward, step.terminated, step.truncated, step.fresh
        mask = step.successor.mask if self.spaces.masked else None
        if active is not None:
            self.buffers.still()
            order = np.flatnonzero(active).tolist()
        self._remember(actions)
        put, row = self._put_successor, 0
        try:
            for row in order:
                obs, reward[row], terminated[row], truncated[row], info = steps[row](actions[row])
                put(row, obs)
                if mask is not None:
                    mask[row] = info["action_mask"]
        except Exception as error:
            raise self._fault(row, actions[row], error) from error
        self._check(actions)
        self._elapsed += 1 if active is None else np.asarray(active, bool)
        if self._counts:
            truncated |= self._elapsed >= self.spaces.max_episode_steps
        np.greater(truncated, terminated, out=truncated)  # where an env reports both, terminated wins
        np.logical_or(terminated, truncated, out=fresh)
        for obs, successor in self._copies:
            np.copyto(obs, successor)
        for row in compress(self._everyone, fresh.tolist()):
            self._begin(row)
        return step

    def snapshot(self) -> Snapshot:
        """Where every env stands: one row per env, and the actions since the resets, env after env."""
        return {
            "episode": self._episode.copy(),
            "elapsed": self._elapsed.copy(),
            "actions": np.concatenate([self._log[row, : self._elapsed[row]] for row in self._everyone]),
            "digest": np.stack([self._digest(row) for row in self._everyone]),
            "restorable": np.full(len(self._everyone), self.restorable),
        }

    def restore(self, snapshot: Snapshot, progress: Progress | None = None) -> Restored:
        """Rebuild every env from its episode's seed and its actions; where that fails, begin a new episode instead."""
        problem = misfit(snapshot, len(self._everyone), self.spaces.action, self.restorable)
        if problem:
            return Restored(self.reset(next_episode(snapshot)), False, problem)
        self._begun = None
        ends, problems, told = np.cumsum(snapshot["elapsed"]), [], time.monotonic()
        for row in self._everyone:
            begin = int(ends[row] - snapshot["elapsed"][row])
            self._episode[row] = snapshot["episode"][row]

            def report(done: int, begin: int = begin) -> None:
                nonlocal told
                if progress is not None and time.monotonic() - told > _REPORT_SECONDS:
                    told = time.monotonic()
                    progress(begin + done, int(ends[-1]))

            problem = self._replay(row, snapshot["actions"][begin : ends[row]], report)
            if not problem and not np.array_equal(self._digest(row), snapshot["digest"][row]):
                problem = f"the replay of {self._elapsed[row]} steps ended in another observation than the checkpoint's"
            if problem:
                problems.append(f"env {self._indices[row]}: {problem}")
                self._begin(row)
        self.buffers.step.fresh[:] = self._elapsed == 0
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return Restored(self.buffers.still(), not problems, problems[0] + more if problems else "")

    def close(self) -> None:
        for env in self.envs:
            with contextlib.suppress(Exception):  # an env that cannot close must not hide why the run ended
                env.close()
        self.envs, self._steps = [], []

    def _make(self, row: int) -> Bare:
        if self._factory is None:
            return make_bare(self._settings)
        env = self._factory(self._indices[row])
        inside, wanted = limit_inside(env), self._settings.max_episode_steps
        return Bare(env, wanted or inside or DEFAULT_TIME_LIMIT, cuts_itself=wanted is None and inside is not None)

    def _replace(self, row: int) -> None:
        self.envs[row].close()
        self.envs[row] = self._make(row).env
        self._steps[row] = self.envs[row].step
        self._used[row] = False

    def _begin(self, row: int) -> None:
        self._episode[row] += 1
        self._elapsed[row] = 0
        episode, begun = int(self._episode[row]), None
        if row == 0:
            begun, self._begun = self._begun if episode == 0 else None, None
        self._show(row, *(begun or self._reset_env(row, episode)))

    def _reset_env(self, row: int, episode: int) -> tuple[Any, dict[str, Any]]:
        if self._remakes and self._used[row]:
            self._replace(row)
        self._used[row] = True
        try:
            obs, info = self.envs[row].reset(seed=self._seed(row, episode))
        except Exception as error:
            raise self._fault(row, None, error) from error
        return obs, info

    def _show(self, row: int, obs: Any, info: dict[str, Any]) -> None:
        try:
            self._put_obs(row, obs)
            if self.spaces.masked:
                self.buffers.step.obs.mask[row] = info["action_mask"]
        except Exception as error:
            raise self._fault(row, None, error) from error

    def _replay(self, row: int, actions: Array, report: Callable[[int], None]) -> str:
        """Bring one env, newly made, to where `actions` lead; says what went wrong, if anything did."""
        self._replace(row)
        self._elapsed[row] = 0
        obs, info = self._reset_env(row, int(self._episode[row]))
        step, ended = self._steps[row], False
        try:
            for done, action in enumerate(actions):
                if ended:
                    return f"its episode ended after {done} of {len(actions)} replayed steps"
                obs, _, terminated, truncated, info = step(action)
                ended = bool(terminated or truncated)
                report(done)
        except Exception as error:
            return f"the replay failed: {type(error).__name__}: {error}"
        self._show(row, obs, info)
        while self._log.shape[1] <= len(actions):
            self._grow()
        self._log[row, : len(actions)] = actions
        self._elapsed[row] = len(actions)
        self._room = 0
        return ""

    def _remember(self, actions: Array) -> None:
        if self._room == 0:
            longest = int(self._elapsed.max())
            if longest == self._log.shape[1]:
                self._grow()
            self._room = self._log.shape[1] - longest
        self._room -= 1
        self._log[self._rows, self._elapsed] = actions

    def _grow(self) -> None:
        self._log = np.concatenate([self._log, np.zeros_like(self._log)], axis=1)

    def _check(self, actions: Array) -> None:
        if self._to_check:
            self._to_check -= 1
            if not self._to_check:
                self._put_successor = self._put_unchecked
        step = self.buffers.step
        for array, flat in self._finite:
            # The sum of squares is quick to have, and finite only if every number is (or none is near overflow).
            if not math.isfinite(flat.dot(flat)) and not np.isfinite(flat).all():
                row = int(np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))[0])
                name = "reward" if array is step.reward else "observation"
                bad = BadObservation(f"{name} holds NaN or infinity: {array[row].tolist()}")
                raise self._fault(row, actions[row], bad)
        if self.spaces.masked:
            stuck = np.flatnonzero(~(step.successor.mask.any(axis=1) | step.terminated | step.truncated))
            if len(stuck):
                raise self._fault(int(stuck[0]), actions[stuck[0]], BadObservation("its action mask allows no action"))

    def _digest(self, row: int) -> Array:
        digest = hashlib.sha256()
        for leaf in self.buffers.obs_leaves:
            digest.update(leaf[row].tobytes())
        return np.frombuffer(digest.digest(), np.uint8)

    def _seed(self, row: int, episode: int) -> int:
        return episode_seed(self._run_seed, self._indices[row], episode, evaluation=self._evaluation)

    def _fault(self, row: int, action: Any, error: Exception) -> RunError:
        episode = max(int(self._episode[row]), 0)
        at = "at its reset" if action is None else f"at step {self._elapsed[row] + 1} with action {action.tolist()}"
        told = str(error)
        if not isinstance(error, BadObservation):
            inner = error.__traceback__.tb_next if error.__traceback__ else None  # without our own frame
            trace = "".join(traceback.format_exception(type(error), error, inner)).rstrip()
            told = f"{type(error).__name__}: {error}\n{trace}"
        name = self._settings.id
        return RunError(
            f"env {self._indices[row]} ({name}) failed in episode {episode} (seed {self._seed(row, episode)}) {at}: "
            f"{told}\nFind out more with: gymlab envs check {name}"
        )


def misfit(snapshot: Snapshot, n: int, action_space: Any, restorable: bool) -> str:
    """Why a snapshot cannot be replayed at all, or nothing."""
    if not restorable or not snapshot["restorable"].all():
        return "env objects given from Python cannot be rebuilt: new episodes began"
    if len(snapshot["episode"]) != n:
        return f"the checkpoint holds {len(snapshot['episode'])} envs and this run has {n}: new episodes began"
    if snapshot["actions"].shape[1:] != action_space.shape or snapshot["actions"].dtype != action_space.dtype:
        return "the checkpoint's actions are not those of this env: new episodes began"
    return ""


def next_episode(snapshot: Snapshot) -> int:
    """An episode index that no env of the snapshot has reached, so that no seed is used twice."""
    return int(snapshot["episode"].max(initial=-1)) + 1
