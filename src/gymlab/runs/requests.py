"""Requests to the process that trains a run: stop, pause, one update, resume, evaluate, write a checkpoint.

A request to stop is a signal where the owner can be identified for certain, else the file `stop.json`, for owners on
other hosts and systems without signals. All other requests are files in the folder `requests`: one file each, so that
two clients never overwrite each other. Each file names the owner it is meant for, so that a later session ignores it.
The owner polls, and writes to `pause.json` whether the run is paused.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Literal, cast, get_args

from gymlab.core.errors import UserError
from gymlab.runs import files, platform
from gymlab.runs.locks import Owner, lock_holder
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import PauseState
from gymlab.runs.status import read_record

Request = Literal["pause", "step", "resume", "evaluate", "checkpoint"]
REQUESTS: tuple[Request, ...] = get_args(Request)
_MAX_TAKEN = 100  # requests taken at a time, in case a broken program floods the folder
_POLL_SECONDS = 0.05


def send_request(paths: RunPaths, request: Request) -> None:
    """Send a request to the process that trains a run; UserError if the run is not running."""
    owner = lock_holder(paths.lock)
    if owner is None:
        raise UserError(f"run '{paths.run_id}' is not running")
    folder = paths.inside(_folder(paths))
    folder.mkdir(exist_ok=True)
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
    files.write_json(folder / name, {"request": request, "owner": asdict(owner)}, durable=False)


def take_requests(paths: RunPaths, owner: Owner) -> Iterator[Request]:
    """The pending requests to `owner`, oldest first; each file is deleted when it is read."""
    for path in _pending(paths):
        record = read_record(path)
        with contextlib.suppress(OSError):
            path.unlink()
        request = record.get("request")
        if request in REQUESTS and record.get("owner") == asdict(owner):
            yield request


def clear_requests(paths: RunPaths) -> None:
    """Delete all pending requests and the pause state."""
    for path in (*_pending(paths), _pause_state(paths)):
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        _folder(paths).rmdir()


def write_pause_state(paths: RunPaths, *, paused: bool, updates: int) -> None:
    """Called by the owner when the run is paused or resumed."""
    files.write_json(_pause_state(paths), {"paused": paused, "updates": updates}, durable=False)


def read_pause_state(paths: RunPaths) -> PauseState:
    """`paused` and `updates` as last written; {} if the run was not paused in this session."""
    return cast("PauseState", read_record(_pause_state(paths)))


def request_stop(paths: RunPaths, owner: Owner) -> str:
    """Ask a run's owner to stop; returns how it was sent: 'signal' or 'file'."""
    if send_signal(owner, platform.TERMINATE):
        return "signal"
    files.write_json(_stop_file(paths), asdict(owner))
    return "file"


def stop_requested(paths: RunPaths, owner: Owner) -> bool:
    """Whether a file asks `owner` to stop. A file meant for an earlier owner is deleted."""
    path = _stop_file(paths)
    try:
        os.lstat(path)
    except OSError:
        return False
    if read_record(path) == asdict(owner):
        return True
    clear_stop_request(paths)
    return False


def clear_stop_request(paths: RunPaths) -> None:
    with contextlib.suppress(OSError):
        _stop_file(paths).unlink()


def send_signal(owner: Owner, number: int) -> bool:
    """Signal exactly this process; False if it is on another host or a later process may have its pid."""
    if owner.pid <= 1 or owner.start is None or owner.host != platform.host_name():
        return False
    return platform.signal_process(owner.pid, owner.start, number)


def wait_for_release(paths: RunPaths, owner: Owner, seconds: float) -> bool:
    """Wait until `owner` has released the run's lock; False after so many seconds."""
    deadline = time.monotonic() + seconds
    while lock_holder(paths.lock) == owner:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _pending(paths: RunPaths) -> list[Path]:
    try:
        with os.scandir(_folder(paths)) as found:
            names = sorted(entry.name for entry in found if entry.name.endswith(".json") and entry.name[0] != ".")
    except OSError:
        return []
    return [_folder(paths) / name for name in names[:_MAX_TAKEN]]


def _folder(paths: RunPaths) -> Path:
    return paths.root / "requests"


def _pause_state(paths: RunPaths) -> Path:
    return paths.root / "pause.json"


def _stop_file(paths: RunPaths) -> Path:
    return paths.root / "stop.json"
