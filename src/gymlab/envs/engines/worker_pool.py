"""The env processes of one engine: what is said to them, what they answer, and how one is lost and replaced."""

from __future__ import annotations

import json
import subprocess
import time
import weakref
from contextlib import suppress
from multiprocessing import BufferTooShort
from typing import Any, NoReturn

from gymlab.core.errors import RunError, UserError
from gymlab.core.types import Array
from gymlab.envs.engines.launch import GONE, start, stop
from gymlab.envs.engines.worker import ASK
from gymlab.envs.errors import Fault
from gymlab.envs.sync_vector import OnFault

_ANSWER_SECONDS = 0.5  # for a silent worker to say where it is
_GLANCE_SECONDS = 1.0
_NOTE = ord("{")


class Lost(Exception):
    """An env process died or fell silent. `inside` is what it could still tell of the env."""

    def __init__(self, how: str, *, hung: bool = False, env: int | None = None, inside: str = "") -> None:
        super().__init__(how)
        self.hung = hung
        self.inside = inside
        self.env = env  # whose fault it is, if that is known


class Crew:
    """Worker k holds the envs of task k. A worker's error ends the crew; its faults are handed to `on_fault`.

    `patience` is for what is slow by nature: starting a process, making envs, resetting them.
    """

    def __init__(self, tasks: list[dict[str, Any]], on_fault: OnFault, patience: float) -> None:
        self._tasks = tasks
        self._on_fault = on_fault
        self.patience = patience
        self._workers = start(tasks, patience)
        self.close = weakref.finalize(self, stop, self._workers)
        try:
            self.told: list[dict[str, Any]] = [json.loads(self.receive(k)) for k in range(len(tasks))]
        except Lost as lost:
            self.close()
            raise RunError(str(lost)) from lost

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def send(self, k: int, message: bytes) -> None:
        """Ask something. That a worker is gone is noticed when its answer is awaited."""
        with suppress(*GONE):
            self._workers[k].connection.send_bytes(message)

    def receive(self, k: int) -> bytes:
        """An answer that is not a step."""
        deadline = time.monotonic() + self.patience
        while True:
            self._wait(k, deadline, self.patience)
            try:
                message: bytes = self._workers[k].connection.recv_bytes()
            except GONE:
                self._lost(k)
            if not self._heed(message):
                return message

    def receive_into(self, k: int, block: Array, deadline: float, seconds: float) -> float:
        """A step's answer, due at `deadline`, which is after `seconds`. Returns the deadline for the other workers."""
        while True:
            deadline = self._wait(k, deadline, seconds)
            try:
                size = self._workers[k].connection.recv_bytes_into(block)
            except BufferTooShort as error:
                self._heed(error.args[0])
                continue
            except GONE:
                self._lost(k)
            if block[0] != _NOTE:
                return deadline
            self._heed(block[:size].tobytes())

    def replace(self, k: int) -> None:
        """A new process in place of one that was lost; Lost where this one does not get ready either."""
        old = self._workers[k]
        old.process.kill()
        stop([old._replace(connection=None)])
        old.connection.close()
        try:
            self._workers[k] = start([self._tasks[k]], self.patience)[0]
        except RunError as error:
            self._workers[k] = old
            raise Lost(str(error)) from error
        self.receive(k)

    def name(self, k: int) -> str:
        """A worker as people are told of it."""
        first, last = self._tasks[k]["indices"]
        envs = f"env {first}" if last - first == 1 else f"envs {first}-{last - 1}"
        return f"env process {k} (pid {self.pids[k]}) with {envs} of {self._tasks[k]['settings']['id']}"

    def _heed(self, message: bytes) -> bool:
        """Act on what a worker tells unasked: True for a fault it went on from; its error is raised."""
        if message[0] != _NOTE:
            return False
        told = json.loads(message)
        if "error" in told:
            self.close()
            raise (UserError if told["kind"] == "UserError" else RunError)(told["error"])
        if "fault" in told:
            self._on_fault(Fault(**told["fault"]))
        return "fault" in told

    def _wait(self, k: int, deadline: float, seconds: float) -> float:
        """Wait for anything from a worker. The deadline is put off by the time for which we were stopped ourselves."""
        now = time.monotonic()
        try:
            while not self._workers[k].connection.poll(max(min(deadline - now, _GLANCE_SECONDS), 0.0)):
                before = now
                now = time.monotonic()
                if now - before > 2 * _GLANCE_SECONDS:  # Ctrl-Z, a frozen container, a paused machine
                    deadline += now - before
                if now >= deadline:
                    break
            else:
                return deadline
        except GONE:
            self._lost(k)
        inside, env = self._ask(k)
        self._workers[k].process.kill()
        how = f"{self.name(k)} did not answer for {seconds:g} s: an env hangs"
        raise Lost(how, hung=True, env=env, inside=inside)

    def _ask(self, k: int) -> tuple[str, int | None]:
        """Where a silent worker is, and the index of its env, if it can still tell. It ends in any case."""
        worker = self._workers[k]
        if ASK is None:
            return "", None
        worker.process.send_signal(ASK)
        with suppress(*GONE, ValueError, KeyError):
            if worker.connection.poll(_ANSWER_SECONDS):
                told = json.loads(worker.connection.recv_bytes())  # a late step is no JSON, and the worker is gone
                return str(told["error"]), told.get("env")
        return "", None

    def _lost(self, k: int) -> NoReturn:
        code: int | None = None
        process = self._workers[k].process
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(1.0)
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        raise Lost(f"{self.name(k)} {how} (out of memory? a crash inside the env?)")
