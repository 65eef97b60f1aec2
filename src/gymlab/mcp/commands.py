"""Runs gymlab commands in child processes, for tools that need JAX: a bounded number at a time, with a timeout."""

from __future__ import annotations

import atexit
import json
import threading
from typing import Any

from gymlab.core.errors import GymlabError, RunError, UserError
from gymlab.mcp.config import ServerConfig
from gymlab.process.child import Child, gymlab_command
from gymlab.process.environ import gymlab_environ
from gymlab.runs.logs import strip_escapes

SECONDS = 50.0  # clients give up after a minute
_MAX_PROCESSES = 2  # with _MAX_WAITING, few enough that the last is served before its client gives up
_MAX_WAITING = 10
_MAX_MESSAGE = 1500  # characters
_process_slots = threading.BoundedSemaphore(_MAX_PROCESSES)
_call_slots = threading.BoundedSemaphore(_MAX_PROCESSES + _MAX_WAITING)
_children: set[Child] = set()


class Busy(GymlabError):
    """More calls wait for a process than the queue holds; the same call may succeed later."""


class TooLong(RunError):
    """The command was killed at its timeout."""


def gymlab(config: ServerConfig, *arguments: str, seconds: float = SECONDS) -> str:
    """Run a command and return its stdout; its error message and exit code become a UserError or RunError."""
    if not _call_slots.acquire(blocking=False):
        most = _MAX_PROCESSES + _MAX_WAITING
        raise Busy(f"more than {most} calls need a process at once: try again in a few seconds")
    try:
        with _process_slots:
            return _run(config, arguments, seconds)
    finally:
        _call_slots.release()


def gymlab_json(config: ServerConfig, *arguments: str, seconds: float = SECONDS) -> Any:
    """Run a command with --json and parse the last line of its stdout."""
    text = gymlab(config, *arguments, "--json", seconds=seconds)
    return json.loads(text.strip().splitlines()[-1])


def _run(config: ServerConfig, arguments: tuple[str, ...], seconds: float) -> str:
    # In the server's process group, so that killing the group kills it too; training has a group of its own.
    child = Child(gymlab_command(*arguments), stdout="file", stderr="file", environ=gymlab_environ(config.root))
    _children.add(child)
    try:
        with child:
            code = child.wait(seconds)
            out = child.output_text()
            err = child.stderr_text()
    finally:
        _children.discard(child)
    if code is None:
        raise TooLong(f"gymlab {arguments[0]} took longer than {seconds:g} s and was ended: ask for less")
    if code:
        message = strip_escapes(err).strip().removeprefix("error: ")[-_MAX_MESSAGE:] or f"exit code {code}"
        raise (UserError if code == 2 else RunError)(message)
    return out


def _end_all() -> None:
    for child in list(_children):
        child.kill()


atexit.register(_end_all)
