"""Env worker processes of one engine: starting, messaging, detecting a lost one, replacing it, ending all.

Each worker (`engines.worker`) is a new interpreter, never a fork, connected by a `multiprocessing.connection`, whose
messages are bytes: no pickle.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError, BufferTooShort
from multiprocessing.connection import Client, Connection, Listener
from typing import NamedTuple, NoReturn

from gymlab.core.errors import RunError, UserError
from gymlab.core.types import Array
from gymlab.envs.engines.sync_vector import OnFault
from gymlab.envs.engines.worker import CLOSE, INTERRUPT, EnvDescription, EnvTask
from gymlab.envs.env_faults import Fault
from gymlab.process.child import Child, module_command
from gymlab.process.environ import child_environ

CONNECTION_ERRORS = (EOFError, OSError)  # what the connection to a dead process raises
_CLOSE_SECONDS = 2.0  # for workers to end by themselves
_INTERRUPT_SECONDS = 0.5  # for a hanging worker to reply with its traceback
_POLL_SECONDS = 1.0
_JSON = ord("{")


class EnvWorker(NamedTuple):
    """An env process and the connection to it."""

    child: Child
    connection: Connection  # or PipeConnection, its twin on Windows


class WorkerLost(Exception):
    """An env process died or hangs. `inside` is the traceback of the env it hangs in, where it could still send one."""

    def __init__(self, how: str, *, hung: bool = False, env: int | None = None, inside: str = "") -> None:
        super().__init__(how)
        self.hung = hung
        self.inside = inside
        self.env = env  # whose fault it is, if that is known


class EnvWorkerPool:
    """Worker k holds the envs of task k. A worker's error closes the pool; its faults are passed to `on_fault`.

    `patience` is the timeout of what is slow by nature: starting a process, making envs, resetting them.
    """

    def __init__(self, tasks: list[EnvTask], on_fault: OnFault, patience: float) -> None:
        self._tasks = tasks
        self._on_fault = on_fault
        self.patience = patience
        self._workers = start_workers(tasks, patience)
        self.close = weakref.finalize(self, stop_workers, self._workers)
        try:
            self.descriptions: list[EnvDescription] = [json.loads(self.receive(k)) for k in range(len(tasks))]
        except WorkerLost as lost:
            self.close()
            raise RunError(str(lost)) from lost

    @property
    def pids(self) -> list[int]:
        return [worker.child.pid for worker in self._workers]

    def send(self, k: int, message: bytes) -> None:
        """Send a request. That a worker has died is noticed when its reply is awaited."""
        with suppress(*CONNECTION_ERRORS):
            self._workers[k].connection.send_bytes(message)

    def receive(self, k: int) -> bytes:
        """A reply that is not a step."""
        deadline = time.monotonic() + self.patience
        while True:
            self._wait(k, deadline, self.patience)
            try:
                message: bytes = self._workers[k].connection.recv_bytes()
            except CONNECTION_ERRORS:
                self._raise_lost(k)
            if not self._handle(message):
                return message

    def receive_into(self, k: int, block: Array, deadline: float, seconds: float) -> float:
        """A step, due at `deadline`, which is after `seconds`. Returns the deadline for the other workers."""
        while True:
            deadline = self._wait(k, deadline, seconds)
            try:
                size = self._workers[k].connection.recv_bytes_into(block)
            except BufferTooShort as error:
                self._handle(error.args[0])
                continue
            except CONNECTION_ERRORS:
                self._raise_lost(k)
            if block[0] != _JSON:
                return deadline
            self._handle(block[:size].tobytes())

    def replace(self, k: int) -> None:
        """A new process in place of one that was lost; WorkerLost where this one does not get ready either."""
        old = self._workers[k]
        old.child.end()
        old.connection.close()
        try:
            self._workers[k] = start_workers([self._tasks[k]], self.patience)[0]
        except RunError as error:
            self._workers[k] = old
            raise WorkerLost(str(error)) from error
        self.receive(k)

    def name(self, k: int) -> str:
        """A worker in messages to people."""
        first, last = self._tasks[k]["indices"]
        envs = f"env {first}" if last - first == 1 else f"envs {first}-{last - 1}"
        return f"env process {k} (pid {self.pids[k]}) with {envs} of {self._tasks[k]['settings']['id']}"

    def _handle(self, message: bytes) -> bool:
        """Handle a message that may come before any reply: True for a fault; an error is raised."""
        if message[0] != _JSON:
            return False
        fields = json.loads(message)
        if "error" in fields:
            self.close()
            raise (UserError if fields["kind"] == "UserError" else RunError)(fields["error"])
        if "fault" in fields:
            self._on_fault(Fault(**fields["fault"]))
        return "fault" in fields

    def _wait(self, k: int, deadline: float, seconds: float) -> float:
        """Wait for any message of a worker. Time for which this process itself was stopped extends the deadline."""
        now = time.monotonic()
        try:
            while not self._workers[k].connection.poll(max(min(deadline - now, _POLL_SECONDS), 0.0)):
                before = now
                now = time.monotonic()
                if now - before > 2 * _POLL_SECONDS:  # Ctrl-Z, a frozen container, a paused machine
                    deadline += now - before
                if now >= deadline:
                    break
            else:
                return deadline
        except CONNECTION_ERRORS:
            self._raise_lost(k)
        inside, env = self._interrupt(k)
        self._workers[k].child.kill()
        how = f"{self.name(k)} did not answer for {seconds:g} s: an env hangs"
        raise WorkerLost(how, hung=True, env=env, inside=inside)

    def _interrupt(self, k: int) -> tuple[str, int | None]:
        """The traceback and env index that a hanging worker replies with, if it still can. It exits in any case."""
        worker = self._workers[k]
        if INTERRUPT is None:
            return "", None
        worker.child.signal(INTERRUPT)
        with suppress(*CONNECTION_ERRORS, ValueError, KeyError):
            if worker.connection.poll(_INTERRUPT_SECONDS):
                fields = json.loads(worker.connection.recv_bytes())  # ValueError for a late step
                return str(fields["error"]), fields.get("env")
        return "", None

    def _raise_lost(self, k: int) -> NoReturn:
        code = self._workers[k].child.wait(1.0)
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        raise WorkerLost(f"{self.name(k)} {how} (out of memory? a crash inside the env?)")


def cores_now() -> int:
    """Cores this process may run on at this moment; `runs.platform.usable_cores` is as of its first call."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def start_workers(tasks: list[EnvTask], timeout: float) -> list[EnvWorker]:
    """One connected process per task; RunError when one ends, or is not connected in time."""
    key = secrets.token_bytes(32)
    environ = child_environ()
    connections: dict[int, Connection] = {}
    children: list[Child] = []
    cancelled = threading.Event()
    with Listener(authkey=key) as listener:
        accepting = threading.Thread(target=_accept, args=(listener, len(tasks), connections, cancelled), daemon=True)
        accepting.start()
        try:
            for k, task in enumerate(tasks):
                opening = {**task, "worker": k, "address": listener.address, "authkey": key.hex()}
                # What envs print goes to stderr: it must not end up in our output.
                child = Child(module_command("gymlab.envs.engines.worker"), stdin="pipe", stdout=2, environ=environ)
                children.append(child)
                child.send(json.dumps(opening))  # one that has ended already is noticed by `_await`
            problem = _await(accepting, children, connections, timeout)
        finally:
            cancelled.set()
            if accepting.is_alive():  # a last connection wakes it up
                with suppress(*CONNECTION_ERRORS, AuthenticationError):
                    Client(listener.address, authkey=key).close()
                accepting.join()
    if problem:
        stop_workers([(child, connections.get(k)) for k, child in enumerate(children)])
        raise RunError(problem)
    return [EnvWorker(child, connections[k]) for k, child in enumerate(children)]


def stop_workers(workers: Sequence[tuple[Child, Connection | None]]) -> None:
    """End all workers: ask them to close, close the connections, and kill those that still run."""
    for _, connection in workers:
        if connection is not None:
            with suppress(*CONNECTION_ERRORS):
                connection.send_bytes(CLOSE)
            connection.close()
    deadline = time.monotonic() + _CLOSE_SECONDS
    for child, connection in workers:
        if connection is not None:
            child.wait(max(deadline - time.monotonic(), 0.01))
        child.end()


def _accept(listener: Listener, count: int, connections: dict[int, Connection], cancelled: threading.Event) -> None:
    while len(connections) < count and not cancelled.is_set():
        with suppress(*CONNECTION_ERRORS, AuthenticationError):
            connection = listener.accept()
            connections[int(connection.recv_bytes())] = connection


def _await(
    accepting: threading.Thread, children: list[Child], connections: dict[int, Connection], timeout: float
) -> str:
    """Wait until all are connected; returns what failed, "" for nothing."""
    deadline = time.monotonic() + timeout
    while accepting.is_alive():
        accepting.join(0.05)
        for k, child in enumerate(children):
            if child.poll() is not None and k not in connections:
                return f"an env process ended with exit code {child.exit_code} before it was ready"
        if time.monotonic() > deadline:
            return f"the env processes were not ready after {timeout:g} s"
    return ""
