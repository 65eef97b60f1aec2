"""One env process: holds some envs of a run, steps them when told, and ends when its parent does.

Started by `engines.launch` as `python -m gymlab.envs.engines.worker`; never forked, and it never imports JAX.
"""

from __future__ import annotations

import faulthandler
import io
import json
import os
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Client, Connection
from typing import Any, NoReturn

import numpy as np

from gymlab.core.errors import GymlabError
from gymlab.envs.errors import EnvFault, Fault, Hung
from gymlab.envs.settings import EnvSettings
from gymlab.envs.sync_vector import Slots

# One byte says what a message asks for.
RESET = b"0"
STEP = b"1"
STEP_SOME = b"2"
RESTORE = b"3"
CLOSE = b"4"

# Asks a worker that is silent where it is; None on Windows, which has no such signal.
ASK: signal.Signals | None = getattr(signal, "SIGUSR1", None)


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """Named arrays as bytes, without pickle."""
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def unpack(data: bytes) -> dict[str, np.ndarray]:
    """The inverse of `pack`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def note(**fields: Any) -> bytes:
    """A message that is not a step: JSON, told apart by its first byte (a step's block begins with zeros)."""
    return json.dumps(fields).encode()


def serve(connection: Connection, task: dict[str, Any]) -> None:
    """Build the envs, then answer requests until told to close."""
    slots = _build(connection, task)
    try:
        connection.send_bytes(note(masked=slots.spaces.masked, limit=slots.spaces.max_episode_steps))
        while True:
            message = connection.recv_bytes()
            kind = message[:1]
            body = message[1:]
            if kind == CLOSE:
                return
            if kind == RESTORE:
                _restore(connection, slots, body)
            elif kind == RESET:
                slots.reset(json.loads(body))
            else:
                _step(slots, kind, body)
            connection.send_bytes(slots.buffers.block.data)
    finally:
        slots.close()


def _build(connection: Connection, task: dict[str, Any]) -> Slots:
    from gymlab.envs.make import import_all
    from gymlab.envs.registration import register

    import_all(tuple(task["imports"]))
    register(task["registered"])
    settings = EnvSettings.model_validate(task["settings"])

    def tell(fault: Fault) -> None:
        connection.send_bytes(note(fault=fault._asdict()))

    on_fault = tell if settings.on_error == "restart" else None
    return Slots(settings, range(*task["indices"]), task["run_seed"], task["evaluation"], on_fault=on_fault)


def _step(slots: Slots, kind: bytes, body: bytes) -> None:
    n = len(slots.envs)
    action = slots.spaces.action
    flags = n if kind == STEP_SOME else 0
    active = np.frombuffer(body, bool, n) if flags else None
    slots.step(np.frombuffer(body, action.dtype, offset=flags).reshape(n, *action.shape), active)


def _restore(connection: Connection, slots: Slots, body: bytes) -> None:
    def report(done: int, total: int) -> None:
        connection.send_bytes(note(done=done, total=total))

    restored = slots.restore(unpack(body), report)
    connection.send_bytes(note(exact=restored.exact, reason=restored.reason))


def _end_with_parent() -> None:
    """Our stdin stays open as long as the parent lives, even while an env hangs."""

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    # An env that hangs in C code and keeps the interpreter to itself stops that thread too. So the kernel is asked to
    # send SIGIO, which ends a process by default, when the other end of the pipe is closed.
    if sys.platform != "win32":
        import fcntl

        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1)
        if not more:
            os._exit(1)
        line += more
    return line


def _tell_where(*_: object) -> NoReturn:
    """Leave an env that hangs, with a traceback that leads into it."""
    raise Hung


def main() -> None:
    """Connect to the parent, take a task, serve it; what goes wrong is told to the parent."""
    # Ctrl-C, kill and a closing terminal reach the whole process group, but only the parent may decide when to stop.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    os.dup2(2, 1)  # what envs print must not end up in the parent's output
    faulthandler.enable(2)  # where a crash in C code came from
    task = json.loads(_read_line())
    _end_with_parent()
    with Client(task["address"], authkey=bytes.fromhex(task["authkey"])) as connection:
        if ASK is not None:
            signal.signal(ASK, _tell_where)
        try:
            connection.send_bytes(str(task["worker"]).encode())
            serve(connection, task)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return
        except EnvFault as error:
            connection.send_bytes(note(error=str(error), kind="RunError", env=error.fault.env))
        except GymlabError as error:
            connection.send_bytes(note(error=str(error), kind=type(error).__name__))
        except (Exception, Hung):
            connection.send_bytes(note(error=traceback.format_exc(), kind="RunError"))


if __name__ == "__main__":
    main()
