"""Worker process that steps some envs of a run; exits with its parent.

Started by `engines.worker_pool` as `python -m gymlab.envs.engines.worker`; never forked, and it never imports JAX.
"""

from __future__ import annotations

import faulthandler
import io
import json
import signal
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection
from typing import NoReturn, TypedDict

import numpy as np

from gymlab.core.errors import GymlabError
from gymlab.core.types import Json, JsonObject
from gymlab.envs.engines.sync_vector import SyncVector
from gymlab.envs.env_faults import EnvFault, Fault, Hung
from gymlab.envs.settings import EnvSettings
from gymlab.envs.step_buffer import leaf_shape
from gymlab.process.parent_watch import ParentPipe, exit_in_native_code, ignore_signals

# The first byte of a request.
RESET = b"0"
STEP = b"1"
STEP_SOME = b"2"
RESTORE = b"3"
CLOSE = b"4"

# Has a hanging worker reply with its traceback and exit; None on Windows, which has no such signal.
INTERRUPT: signal.Signals | None = getattr(signal, "SIGUSR1", None)


class EnvTask(TypedDict):
    """The envs of a worker."""

    settings: JsonObject  # EnvSettings
    run_seed: int
    evaluation: bool
    imports: Sequence[str]
    registered: str | None
    indices: tuple[int, int]  # the first env and the one after the last


class ConnectedTask(EnvTask):
    """As a worker reads it: with its number, and how it connects to its parent."""

    worker: int
    address: str
    authkey: str


class EnvDescription(TypedDict):
    """A worker's first reply."""

    masked: bool
    limit: int  # steps after which an episode is truncated


def pack(arrays: dict[str, np.ndarray]) -> bytes:
    """Named arrays as bytes, without pickle."""
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def unpack(data: bytes) -> dict[str, np.ndarray]:
    """The inverse of `pack`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return dict(arrays)


def json_message(**fields: Json) -> bytes:
    """A message that is not a step: JSON, known by its first byte (a step's block begins with zeros)."""
    return json.dumps(fields).encode()


def serve(connection: Connection, task: EnvTask) -> None:
    """Make the envs, then reply to requests until CLOSE."""
    slots = _build(connection, task)
    try:
        connection.send_bytes(json_message(masked=slots.spaces.masked, limit=slots.spaces.max_episode_steps))
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


def _build(connection: Connection, task: EnvTask) -> SyncVector:
    from gymlab.envs.make import import_all
    from gymlab.envs.registry import register_from_json

    import_all(tuple(task["imports"]))
    register_from_json(task["registered"])
    settings = EnvSettings.model_validate(task["settings"])

    def send_fault(fault: Fault) -> None:
        connection.send_bytes(json_message(fault=fault._asdict()))

    on_fault = send_fault if settings.on_error == "restart" else None
    return SyncVector(settings, range(*task["indices"]), task["run_seed"], task["evaluation"], on_fault=on_fault)


def _step(slots: SyncVector, kind: bytes, body: bytes) -> None:
    n = len(slots.envs)
    action = slots.spaces.action
    flags = n if kind == STEP_SOME else 0
    active = np.frombuffer(body, bool, n) if flags else None
    slots.step(np.frombuffer(body, action.dtype, offset=flags).reshape(n, *leaf_shape(action)), active)


def _restore(connection: Connection, slots: SyncVector, body: bytes) -> None:
    def report(done: int, total: int) -> None:
        connection.send_bytes(json_message(done=done, total=total))

    restored = slots.restore(unpack(body), report)
    connection.send_bytes(json_message(exact=restored.exact, reason=restored.reason))


def _raise_hung(*_: object) -> NoReturn:
    """Signal handler: leave an env that hangs with a traceback that leads into it."""
    raise Hung


def main() -> None:
    """Read a task from the parent, connect to it and serve; errors are sent to the parent."""
    # Ctrl-C, kill and a closing terminal reach the whole process group, but only the parent may decide when to stop.
    ignore_signals("SIGINT", "SIGTERM", "SIGHUP")
    parent = ParentPipe()
    faulthandler.enable(2)  # where a crash in C code came from
    task: ConnectedTask = json.loads(parent.read_opening())
    # stdin stays open as long as the parent lives, even while an env hangs.
    parent.listen(exit_code=1)
    exit_in_native_code()
    with Client(task["address"], authkey=bytes.fromhex(task["authkey"])) as connection:
        if INTERRUPT is not None:
            signal.signal(INTERRUPT, _raise_hung)
        try:
            connection.send_bytes(str(task["worker"]).encode())
            serve(connection, task)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return
        except EnvFault as error:
            connection.send_bytes(json_message(error=str(error), kind="RunError", env=error.fault.env))
        except GymlabError as error:
            connection.send_bytes(json_message(error=str(error), kind=type(error).__name__))
        except (Exception, Hung):  # any error of the env's author: the parent raises it
            connection.send_bytes(json_message(error=traceback.format_exc(), kind="RunError"))


if __name__ == "__main__":
    main()
