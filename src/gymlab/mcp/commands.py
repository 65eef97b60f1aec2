"""Commands of gymlab's own as processes: what needs JAX runs there, a few at a time, and never longer than allowed."""

from __future__ import annotations

import atexit
import json
import threading
from typing import Any

from gymlab.core.errors import GymlabError, RunError, UserError
from gymlab.mcp.config import ServerConfig
from gymlab.process.child import Child, gymlab_command
from gymlab.process.environ import gymlab_environ
from gymlab.runs.logs import plain

SECONDS = 50.0  # clients give up after a minute
_AT_ONCE = 2  # the last of them is served before its client gives up
_WAITING = 10
_MOST_LETTERS = 1500
_turn = threading.BoundedSemaphore(_AT_ONCE)
_asked = threading.BoundedSemaphore(_AT_ONCE + _WAITING)
_alive: set[Child] = set()


class Busy(GymlabError):
    """Too much was asked at once; the input may be right."""


class TooLong(RunError):
    """It was stopped, because the client would not have waited."""


def gymlab(config: ServerConfig, *arguments: str, seconds: float = SECONDS) -> str:
    """Run a command to its end; what it printed. Its mistakes become ours."""
    if not _asked.acquire(blocking=False):
        raise Busy(f"more than {_AT_ONCE + _WAITING} calls need a process at once: try again in a few seconds")
    try:
        with _turn:
            return _run(config, arguments, seconds)
    finally:
        _asked.release()


def gymlab_json(config: ServerConfig, *arguments: str, seconds: float = SECONDS) -> Any:
    """The same with --json: the object of its last line."""
    text = gymlab(config, *arguments, "--json", seconds=seconds)
    return json.loads(text.strip().splitlines()[-1])


def _run(config: ServerConfig, arguments: tuple[str, ...], seconds: float) -> str:
    # In our own process group: a client that ends the server's group ends this too, trainings have one of their own.
    child = Child(gymlab_command(*arguments), stdout="file", stderr="file", environ=gymlab_environ(config.root))
    _alive.add(child)
    try:
        with child:
            code = child.wait(seconds)
            out = child.output_text()
            err = child.stderr_text()
    finally:
        _alive.discard(child)
    if code is None:
        raise TooLong(f"gymlab {arguments[0]} took longer than {seconds:g} s and was ended: ask for less")
    if code:
        message = plain(err).strip().removeprefix("error: ")[-_MOST_LETTERS:] or f"exit code {code}"
        raise (UserError if code == 2 else RunError)(message)
    return out


def _end_all() -> None:
    for child in list(_alive):
        child.kill()


atexit.register(_end_all)
