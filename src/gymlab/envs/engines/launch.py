"""Starting and ending env processes, and what must travel to them: new interpreters, never forks."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from typing import Any, NamedTuple

from gymlab.core.errors import RunError, UserError
from gymlab.envs.engines.worker import CLOSE
from gymlab.envs.make import split_wrappers
from gymlab.envs.settings import EnvSettings
from gymlab.process.environ import child_environ

GONE = (EOFError, OSError)  # what a dead process's line raises
_PATIENCE_SECONDS = 2.0  # for workers to end by themselves


class Worker(NamedTuple):
    """An env process and the line to it."""

    process: subprocess.Popen[bytes]
    connection: Any  # multiprocessing.connection.Connection, or PipeConnection on Windows


def usable_cores() -> int:
    """How many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def portable(settings: EnvSettings) -> dict[str, Any]:
    """The settings as JSON, without transforms: those act in the parent."""
    env_side = settings.model_copy(update={"wrappers": split_wrappers(settings)[0]})
    try:
        return env_side.model_dump(mode="json")
    except ValueError as error:
        raise UserError(
            f"env.kwargs of {settings.id} cannot be sent to env processes: use vectorization: sync"
        ) from error


def start(tasks: list[dict[str, Any]], timeout: float) -> list[Worker]:
    """One connected process per task; RunError when one ends or stays silent before it is connected."""
    key = secrets.token_bytes(32)
    environ = child_environ()
    connections: dict[int, Any] = {}
    processes: list[subprocess.Popen[bytes]] = []
    given_up = threading.Event()
    with Listener(authkey=key) as listener:
        accepting = threading.Thread(target=_accept, args=(listener, len(tasks), connections, given_up), daemon=True)
        accepting.start()
        try:
            for k, task in enumerate(tasks):
                processes.append(
                    _spawn({**task, "worker": k, "address": listener.address, "authkey": key.hex()}, environ)
                )
            problem = _await(accepting, processes, connections, timeout)
        finally:
            given_up.set()
            if accepting.is_alive():  # a last connection wakes it up
                with suppress(*GONE, AuthenticationError):
                    Client(listener.address, authkey=key).close()
                accepting.join()
    workers = [Worker(process, connections.get(k)) for k, process in enumerate(processes)]
    if problem:
        stop(workers)
        raise RunError(problem)
    return workers


def stop(workers: list[Worker]) -> None:
    """End all workers: by asking, by hanging up, and in the end by force."""
    for worker in workers:
        if worker.connection is not None:
            with suppress(*GONE):
                worker.connection.send_bytes(CLOSE)
            worker.connection.close()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for worker in workers:
        with suppress(subprocess.TimeoutExpired):
            if worker.connection is not None:
                worker.process.wait(max(deadline - time.monotonic(), 0.01))
        worker.process.kill()
        worker.process.wait()
        if worker.process.stdin is not None:
            with suppress(OSError):
                worker.process.stdin.close()


def _spawn(task: dict[str, Any], environ: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "gymlab.envs.engines.worker"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environ)
    assert process.stdin is not None
    with suppress(OSError):  # one that is gone already is noticed by `_await`
        process.stdin.write(json.dumps(task).encode() + b"\n")
        process.stdin.flush()
    return process


def _accept(listener: Listener, count: int, connections: dict[int, Any], given_up: threading.Event) -> None:
    while len(connections) < count and not given_up.is_set():
        with suppress(*GONE, AuthenticationError):
            connection: Any = listener.accept()
            connections[int(connection.recv_bytes())] = connection


def _await(
    accepting: threading.Thread, processes: list[subprocess.Popen[bytes]], connections: dict[int, Any], timeout: float
) -> str:
    """Wait until all are connected; says what went wrong, if anything did."""
    deadline = time.monotonic() + timeout
    while accepting.is_alive():
        accepting.join(0.05)
        for k, process in enumerate(processes):
            if process.poll() is not None and k not in connections:
                return f"an env process ended with exit code {process.returncode} before it was ready"
        if time.monotonic() > deadline:
            return f"the env processes were not ready after {timeout:g} s"
    return ""
