"""The same engine over several env processes, for envs too slow to be stepped one after the other."""

from __future__ import annotations

import json
import subprocess
import time
import weakref
from contextlib import suppress
from itertools import pairwise
from multiprocessing import BufferTooShort
from typing import Literal, NoReturn

import numpy as np

from gymlab.core.errors import GymlabError, RunError, UserError
from gymlab.core.types import Array, Spaces, VecStep
from gymlab.envs.buffers import Buffers
from gymlab.envs.engines.launch import GONE, portable, registration, start, stop, usable_cores
from gymlab.envs.engines.worker import RESET, RESTORE, SNAPSHOT, STEP, STEP_SOME, pack, unpack
from gymlab.envs.make import import_all, make_bare
from gymlab.envs.settings import EnvSettings
from gymlab.envs.slots import Progress, Restored, Snapshot, misfit, next_episode

_SLOW_SECONDS = 1e-3  # per env step: below this, talking to processes costs more than it saves
_NOTE = ord("{")


class ProcessEngine:
    """A HostEngine over worker processes with several envs each; byte for byte what `GymnasiumEngine` gives."""

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
        timeout: float = 60.0,
    ) -> None:
        import_all(imports)
        self.n_envs, self._id, self._timeout = n_envs, settings.id, timeout
        count = min(workers or usable_cores(), n_envs)
        edges = [n_envs * k // count for k in range(count + 1)]
        self._ranges = [slice(*pair) for pair in pairwise(edges)]
        task = {
            "settings": portable(settings),
            "run_seed": run_seed,
            "evaluation": evaluation,
            "imports": imports,
            "registered": registration(settings.id),
        }
        env = make_bare(settings).env  # for its spaces: sending those would take a pickle
        env.close()
        self._workers = start([{**task, "indices": (rows.start, rows.stop)} for rows in self._ranges], timeout)
        self._end = weakref.finalize(self, stop, self._workers)
        told = [json.loads(self._receive(k)) for k in range(count)]
        self.spaces = Spaces(env.observation_space, env.action_space, told[0]["masked"], told[0]["limit"])
        self._whole = Buffers(self.spaces, n_envs)
        self._parts = [Buffers(self.spaces, rows.stop - rows.start) for rows in self._ranges]

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process.pid for worker in self._workers]

    def reset(self, episode: int | None = None) -> VecStep:
        """Start every env's next episode, or the one with the given index."""
        for k in range(len(self._workers)):
            self._send(k, RESET + json.dumps(episode).encode())
        return self._gather()

    def step(self, action: Array, active: np.ndarray | None = None) -> VecStep:
        """One step of all envs, or of the `active` ones: the others keep their observation and are paid nothing."""
        actions = np.ascontiguousarray(action, self.spaces.action.dtype)
        for k, rows in enumerate(self._ranges):
            head = STEP if active is None else STEP_SOME + np.asarray(active[rows], bool).tobytes()
            self._send(k, head + actions[rows].tobytes())
        return self._gather()

    def snapshot(self) -> Snapshot:
        for k in range(len(self._workers)):
            self._send(k, SNAPSHOT)
        parts = [unpack(self._receive(k)) for k in range(len(self._workers))]
        return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}

    def restore(self, snapshot: Snapshot, progress: Progress | None = None) -> Restored:
        problem = misfit(snapshot, self.n_envs, self.spaces.action, self.restorable)
        if problem:
            return Restored(self.reset(next_episode(snapshot)), False, problem)
        edges = np.concatenate([[0], np.cumsum(snapshot["elapsed"])])
        for k, rows in enumerate(self._ranges):
            part = {key: array[rows] for key, array in snapshot.items() if key != "actions"}
            part["actions"] = snapshot["actions"][edges[rows.start] : edges[rows.stop]]
            self._send(k, RESTORE + pack(part))
        problems = [
            self._follow_replay(k, int(edges[rows.start]), int(edges[-1]), progress)
            for k, rows in enumerate(self._ranges)
        ]
        problems = [problem for problem in problems if problem]
        return Restored(self._gather(), not problems, "; ".join(problems))

    def close(self) -> None:
        self._end()

    def __enter__(self) -> ProcessEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _follow_replay(self, k: int, before: int, total: int, progress: Progress | None) -> str:
        while True:
            told = json.loads(self._receive(k))
            if "reason" in told:
                return str(told["reason"])
            if progress is not None:
                progress(before + told["done"], total)

    def _gather(self) -> VecStep:
        for k, rows in enumerate(self._ranges):
            self._receive_step(k)
            for whole, part in zip(self._whole.all, self._parts[k].all, strict=True):
                whole[rows] = part
        return self._whole.step

    def _send(self, k: int, message: bytes) -> None:
        try:
            self._workers[k].connection.send_bytes(message)
        except GONE:
            self._lost(k)

    def _receive_step(self, k: int) -> None:
        self._wait(k)
        block = self._parts[k].block
        try:
            size = self._workers[k].connection.recv_bytes_into(block)
        except BufferTooShort as error:
            self._raise(error.args[0])
        except GONE:
            self._lost(k)
        if block[0] == _NOTE:
            self._raise(block[:size].tobytes())

    def _receive(self, k: int) -> bytes:
        self._wait(k)
        try:
            message: bytes = self._workers[k].connection.recv_bytes()
        except GONE:
            self._lost(k)
        if message[0] == _NOTE and b'"error"' in message:
            self._raise(message)
        return message

    def _wait(self, k: int) -> None:
        try:
            if self._workers[k].connection.poll(self._timeout):
                return
        except GONE:
            self._lost(k)
        self._workers[k].process.kill()
        self.close()
        raise RunError(f"{self._name(k)} did not answer for {self._timeout:g} s: an env hangs")

    def _raise(self, message: bytes) -> NoReturn:
        told = json.loads(message)
        self.close()
        raise (UserError if told["kind"] == "UserError" else RunError)(told["error"])

    def _lost(self, k: int) -> NoReturn:
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = self._workers[k].process.wait(1.0)
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        self.close()
        raise RunError(f"{self._name(k)} {how} (out of memory? a crash inside the env?)")

    def _name(self, k: int) -> str:
        rows = self._ranges[k]
        one = rows.stop - rows.start == 1
        envs = f"env {rows.start}" if one else f"envs {rows.start}-{rows.stop - 1}"
        return f"env process {k} (pid {self._workers[k].process.pid}) with {envs} of {self._id}"


def choose_vectorization(
    settings: EnvSettings, n_envs: int, imports: tuple[str, ...] = ()
) -> tuple[Literal["sync", "processes"], str]:
    """Where envs are best stepped, and why: decided by timing a few steps of one env."""
    import_all(imports)
    cores = usable_cores()
    if n_envs == 1 or cores == 1:
        return "sync", "one env" if n_envs == 1 else "one core"
    try:
        portable(settings)
        registration(settings.id)
    except UserError as error:
        return "sync", str(error)
    try:
        seconds = _seconds_per_step(settings)
    except GymlabError:
        raise
    except Exception as error:  # the engine will say it better, with seed and step
        return "sync", f"it could not be timed: {type(error).__name__}"
    took = f"{seconds * 1e3:.2g} ms per env step"
    return ("sync", took) if seconds < _SLOW_SECONDS else ("processes", f"{took}, {cores} cores")


def _seconds_per_step(settings: EnvSettings, steps: int = 50, budget: float = 0.05) -> float:
    env = make_bare(settings).env
    try:
        env.action_space.seed(0)
        _, info = env.reset(seed=0)
        took: list[float] = []
        begin = time.perf_counter()
        while len(took) < 3 or (len(took) < steps and time.perf_counter() - begin < budget):
            mask = np.asarray(info["action_mask"], np.int8) if "action_mask" in info else None
            action, started = env.action_space.sample(mask), time.perf_counter()
            _, _, terminated, truncated, info = env.step(action)
            took.append(time.perf_counter() - started)
            if terminated or truncated:
                _, info = env.reset(seed=len(took))
        return float(np.median(took))  # a first step may compile or load something
    finally:
        env.close()
