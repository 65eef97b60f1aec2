"""ProcessEngine: envs stepped in several worker processes, and the choice between these and one process."""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from itertools import pairwise
from typing import Literal

import numpy as np

from gymlab.core.errors import GymlabError, RunError, UserError
from gymlab.core.types import Array, Json, Spaces, VecStep
from gymlab.envs.engines.base import HostEngine
from gymlab.envs.engines.worker import RESET, RESTORE, STEP, STEP_SOME, EnvTask, pack
from gymlab.envs.engines.worker_pool import EnvWorkerPool, WorkerLost, cores_now
from gymlab.envs.env_faults import EpisodeSeeds, Fault
from gymlab.envs.make import import_all, limit_steps_per_step, make_bare, split_wrappers
from gymlab.envs.registry import registration_json
from gymlab.envs.replay_log import (
    ActionLog,
    Progress,
    Restored,
    Snapshot,
    check_fields,
    incompatibility,
    next_episode,
    rows_snapshot,
)
from gymlab.envs.settings import EnvSettings
from gymlab.envs.step_buffer import StepBuffer

log = logging.getLogger(__name__)
_SLOW_SECONDS = 1e-3  # per env step: below this, talking to processes costs more than it saves
_PATIENCE_SECONDS = 60.0
_TRIES = 3  # of a lost worker's request before its envs count as faulty
_MOST_NAMED = 8  # envs of a lost worker that are named


class ProcessEngine(HostEngine):
    """A HostEngine over worker processes with several envs each; byte for byte what `GymnasiumEngine` gives.

    With `on_error: restart` a worker that dies or hangs is replaced, its envs are rebuilt by replay and the step is
    repeated, with the same result. Only an env that fails again at the same step begins a new episode.
    """

    name = "gymnasium"
    restorable = True

    def __init__(
        self,
        settings: EnvSettings,
        n_envs: int,
        run_seed: int,
        *,
        evaluation: bool = False,
        imports: tuple[str, ...] = (),
        workers: int | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(n_envs, imports)
        self._settings = settings
        self._seeds = EpisodeSeeds(settings.id, run_seed, evaluation)
        self._timeout = timeout or settings.timeout
        count = min(workers or cores_now(), n_envs)
        edges = [n_envs * k // count for k in range(count + 1)]
        self._ranges = [slice(*pair) for pair in pairwise(edges)]
        task: EnvTask = {
            "settings": portable(settings),
            "run_seed": run_seed,
            "evaluation": evaluation,
            "imports": imports,
            "registered": registration_json(settings.id),
            "indices": (0, n_envs),
        }
        env = make_bare(settings).env  # for its spaces: sending those would take a pickle
        env.close()
        tasks: list[EnvTask] = [{**task, "indices": (rows.start, rows.stop)} for rows in self._ranges]
        self._pool = EnvWorkerPool(tasks, self._restarts.add, max(_PATIENCE_SECONDS, self._timeout))
        description = self._pool.descriptions[0]
        self.spaces = Spaces(
            env.observation_space,
            env.action_space,
            description["masked"],
            description["limit"],
            limit_steps_per_step(env),
        )
        self._whole = StepBuffer(self.spaces, n_envs)
        self._parts = [StepBuffer(self.spaces, rows.stop - rows.start) for rows in self._ranges]
        self._history = ActionLog(self._whole, self.spaces.action, self.spaces.max_episode_steps)
        self._step_actions: Array | None = None  # the actions of the step in progress

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return self._pool.pids

    def reset(self, episode: int | None = None) -> VecStep:
        episodes = self._history.episode + 1 if episode is None else np.full(self.n_envs, episode)
        requests = [RESET + json.dumps(episodes[rows].tolist()).encode() for rows in self._ranges]
        for k, message in enumerate(requests):
            self._pool.send(k, message)
        for k, message in enumerate(requests):
            self._begin(k, message)
        self._history.elapsed.fill(0)
        return self._whole.step

    def step(self, action: Array, active: np.ndarray | None = None) -> VecStep:
        actions = np.ascontiguousarray(action, self.spaces.action.dtype)
        for k, rows in enumerate(self._ranges):
            head = STEP if active is None else STEP_SOME + np.asarray(active[rows], bool).tobytes()
            self._pool.send(k, head + actions[rows].tobytes())
        self._restarts.env_steps += self.n_envs
        self._history.append(actions)
        self._step_actions = actions
        deadline = time.monotonic() + self._timeout
        for k, rows in enumerate(self._ranges):
            try:
                deadline = self._pool.receive_into(k, self._parts[k].block, deadline, self._timeout)
            except WorkerLost as lost:
                self._recover(k, lost, None if active is None else active[rows])
            self._copy_part(k)
        self._step_actions = None
        self._history.elapsed += 1 if active is None else np.asarray(active, bool)
        self._history.elapsed[self._whole.step.fresh] = 0
        return self._whole.step

    def snapshot(self) -> Snapshot:
        """The replay log of all envs, kept in this process: no message to the workers."""
        return self._history.snapshot(slice(None), restorable=True) | {"restarts": np.array([self.restarts])}

    def restore(self, snapshot: Snapshot, progress: Progress | None = None) -> Restored:
        check_fields(snapshot)
        self._restarts.count = int(snapshot["restarts"][0])
        problem = incompatibility(snapshot, self.n_envs, self.spaces.action, self.restorable)
        if problem:
            return Restored(self.reset(next_episode(snapshot)), False, problem)
        parts = [rows_snapshot(snapshot, rows) for rows in self._ranges]
        for k, part in enumerate(parts):
            self._pool.send(k, RESTORE + pack(part))
        problems = []
        before = 0
        total = int(snapshot["elapsed"].sum())
        for k, part in enumerate(parts):
            try:
                problem = self._follow_replay(k, before, total, progress)
            except WorkerLost as lost:
                problem = self._rebuild(k, part, lost)
            problems += [problem] if problem else []
            before += len(part["actions"])
            self._copy_part(k)
        self._history.load(snapshot, self._whole.episode == snapshot["episode"])
        return Restored(self._whole.step, not problems, "; ".join(problems))

    def close(self) -> None:
        self._pool.close()

    def _copy_part(self, k: int) -> None:
        for whole, part in zip(self._whole.all, self._parts[k].all, strict=True):
            whole[self._ranges[k]] = part

    def _begin(self, k: int, message: bytes) -> None:
        """Await the reply to a reset, from a new worker where the old one is lost."""
        tried = 1
        while True:
            try:
                self._receive(k, self._parts[k], self._pool.patience)
                return self._copy_part(k)
            except WorkerLost as lost:
                if tried == _TRIES:
                    raise RunError(f"{lost}\nIts reset failed {tried} times in a row") from lost
                self._count_lost(k, lost)
            tried += 1
            with suppress(WorkerLost):  # the next receive raises
                self._pool.replace(k)
            self._pool.send(k, message)

    def _recover(self, k: int, lost: WorkerLost, active: Array | None) -> None:
        """Rebuild a lost worker's envs and repeat the step.

        An env that caused a second hang or a third death at this step is truncated and begins a new episode.
        """
        rows = self._ranges[k]
        part = self._history.snapshot(rows, restorable=True)
        blame = np.zeros(rows.stop - rows.start, np.int64)
        while True:
            blame[slice(None) if lost.env is None else lost.env - rows.start] += 1
            part["restorable"] &= blame < (2 if lost.hung else _TRIES)
            if problem := self._rebuild(k, part, lost):
                log.warning("a new episode began after the restart: %s", problem)
            try:
                return self._repeat(k, part, active)
            except WorkerLost as again:
                lost = again

    def _rebuild(self, k: int, part: Snapshot, lost: WorkerLost) -> str:
        """Start a new worker and replay the envs of `part` in it; returns why this was not exact, "" where it was."""
        tried = 0
        while True:
            self._count_lost(k, lost)
            if tried == _TRIES:  # give up replaying: begin new episodes
                part["restorable"][:] = False
            try:
                self._pool.replace(k)
                tried += 1
                self._pool.send(k, RESTORE + pack(part))
                return self._follow_replay(k)
            except WorkerLost as again:
                lost = again

    def _repeat(self, k: int, part: Snapshot, active: Array | None) -> None:
        """Repeat the step one env at a time, so that the env that loses the worker again is identified."""
        rows = self._ranges[k]
        got = self._parts[k]
        assert self._step_actions is not None
        actions = self._step_actions[rows].tobytes()
        n = rows.stop - rows.start
        is_new = got.episode != part["episode"]
        stepped = ~is_new if active is None else ~is_new & active
        answer = StepBuffer(self.spaces, n)
        got.arrays.fresh.fill(False)
        for row in np.flatnonzero(stepped):
            self._pool.send(k, STEP_SOME + (np.arange(n) == row).tobytes() + actions)
            try:
                self._receive(k, answer, self._timeout)
            except WorkerLost as lost:
                lost.env = rows.start + int(row)
                raise
            for into, new in zip(got.all, answer.all, strict=True):
                into[row] = new[row]
        for row in np.flatnonzero(is_new):
            got.truncate(int(row), self._whole, rows.start + int(row))

    def _follow_replay(self, k: int, before: int = 0, total: int = 0, progress: Progress | None = None) -> str:
        """Await the end of a replay; returns why it was not exact, "" where it was."""
        while True:
            message = json.loads(self._pool.receive(k))
            if "reason" in message:
                self._receive(k, self._parts[k], self._pool.patience)
                return str(message["reason"])
            if progress is not None:
                progress(before + message["done"], total)

    def _count_lost(self, k: int, lost: WorkerLost) -> None:
        """Count a lost worker; raises where the run stops on errors, or after too many."""
        rows = self._ranges[k]
        suspects = list(range(rows.start, rows.stop)) if lost.env is None else [lost.env]
        text = "\n".join([str(lost), *([lost.inside] if lost.inside else self._locations(suspects))])
        if self._settings.on_error == "stop":
            self.close()
            raise RunError(text) from lost
        self._restarts.add(Fault(suspects[0], "env process hangs" if lost.hung else "env process is lost", text))

    def _locations(self, envs: list[int]) -> list[str]:
        """One line per env: its episode, seed and step."""
        lines = []
        for env in envs[:_MOST_NAMED]:
            episode = max(int(self._history.episode[env]), 0)
            elapsed = self._history.elapsed[env]
            location = self._seeds.location(
                env, episode, elapsed, None if self._step_actions is None else self._step_actions[env]
            )
            lines.append(f"env {env} was {location}")
        return lines if len(envs) <= _MOST_NAMED else [*lines, f"and {len(envs) - _MOST_NAMED} more"]

    def _receive(self, k: int, into: StepBuffer, seconds: float) -> None:
        self._pool.receive_into(k, into.block, time.monotonic() + seconds, seconds)


def choose_vectorization(
    settings: EnvSettings, n_envs: int, imports: tuple[str, ...] = ()
) -> tuple[Literal["sync", "processes"], str]:
    """Whether to step envs in this process or in several, and why: decided by timing a few steps of one env."""
    import_all(imports)
    cores = cores_now()
    if n_envs == 1 or cores == 1:
        return "sync", "one env" if n_envs == 1 else "one core"
    try:
        portable(settings)
        registration_json(settings.id)
    except UserError as error:
        return "sync", str(error)
    try:
        seconds = _seconds_per_step(settings)
    except GymlabError:
        raise
    except Exception as error:  # any error of the env's author: the engine reports it with seed and step
        return "sync", f"it could not be timed: {type(error).__name__}"
    took = f"{seconds * 1e3:.2g} ms per env step"
    return ("sync", took) if seconds < _SLOW_SECONDS else ("processes", f"{took}, {cores} cores")


def portable(settings: EnvSettings) -> dict[str, Json]:
    """The settings as JSON, without transforms: those are applied in the parent."""
    env_side = settings.model_copy(update={"wrappers": split_wrappers(settings)[0]})
    try:
        return env_side.model_dump(mode="json")
    except ValueError as error:
        raise UserError(
            f"env.kwargs of {settings.id} cannot be sent to env processes: use vectorization: sync"
        ) from error


def _seconds_per_step(settings: EnvSettings, steps: int = 50, budget: float = 0.05) -> float:
    env = make_bare(settings).env
    try:
        env.action_space.seed(0)
        _, info = env.reset(seed=0)
        took: list[float] = []
        begin = time.perf_counter()
        while len(took) < 3 or (len(took) < steps and time.perf_counter() - begin < budget):
            mask = np.asarray(info["action_mask"], np.int8) if "action_mask" in info else None
            action = env.action_space.sample(mask)
            started = time.perf_counter()
            _, _, terminated, truncated, info = env.step(action)
            took.append(time.perf_counter() - started)
            if terminated or truncated:
                _, info = env.reset(seed=len(took))
        return float(np.median(took))  # a first step may compile or load something
    finally:
        env.close()
