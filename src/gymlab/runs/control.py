"""Asking the process that owns a run to stop: by a signal where that process can be named for certain, else by a file.

The file is the way to owners on other hosts and on systems without signals; the owner looks for it about once a second.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from gymlab.runs import files, platform
from gymlab.runs.locks import Owner, lock_holder
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_record

_POLL_SECONDS = 0.05


def newest_run(
    runs_root: Path, *statuses: str, having: Callable[[RunPaths], object] = lambda _: True
) -> RunPaths | None:
    """The newest run with one of these statuses (without any: of all runs) for which `having` holds."""
    for entry in Registry(runs_root).runs():
        if not statuses or entry["status"] in statuses:
            paths = RunPaths(runs_root / entry["id"])
            if having(paths):
                return paths
    return None


def ask_to_stop(paths: RunPaths, owner: Owner) -> str:
    """Tell a run's owner to stop; says how that was done: 'signal' or 'file'."""
    if send_signal(owner, platform.TERMINATE):
        return "signal"
    files.write_json(_request(paths), asdict(owner))
    return "file"


def stop_requested(paths: RunPaths, owner: Owner) -> bool:
    """Whether a file asks `owner` to stop. One that was meant for an earlier owner is removed."""
    path = _request(paths)
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
        _request(paths).unlink()


def _request(paths: RunPaths) -> Path:
    return paths.root / "stop.json"


def send_signal(owner: Owner, number: int) -> bool:
    """Signal the very process that is meant; False where it is not here, or cannot be told from a later one."""
    if owner.pid <= 1 or owner.start is None or owner.host != platform.host_name():
        return False
    return platform.signal_process(owner.pid, owner.start, number)


def wait_for_release(paths: RunPaths, owner: Owner, seconds: float) -> bool:
    """Wait until `owner` has let go of a run; whether it did in time."""
    deadline = time.monotonic() + seconds
    while lock_holder(paths.lock) == owner:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
