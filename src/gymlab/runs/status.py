"""What a run is doing: `status.json`, and the truth about it when the process that wrote it is gone."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, Literal

from gymlab.core.errors import RunError
from gymlab.runs import files
from gymlab.runs.locks import lock_holder, read_owner
from gymlab.runs.paths import RunPaths

Status = Literal["running", "finished", "stopped", "crashed", "failed"]
STATUSES = ("running", "finished", "stopped", "crashed", "failed")


def now() -> str:
    """The time of day for records that people read. Order and durations never depend on it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_record(path: Path) -> dict[str, Any]:
    """A JSON object that may be missing or damaged, then {}: what it says is not needed to go on."""
    try:
        record = files.read_json(path)
    except (OSError, RunError):
        return {}
    return record if isinstance(record, dict) else {}


def read_status(paths: RunPaths) -> dict[str, Any]:
    """The run's status record, made truthful: `running` only while its owner lives, else `crashed`.

    Keys: status, stop_reason, started, ended, heartbeat, beats, sessions, pid, host, clock, summary.
    """
    holder = lock_holder(paths.lock)  # asked first: a run that ends in between has then written its last word
    record = read_record(paths.status)
    said = record.get("status")
    if holder is not None:
        # The owner may not have said so yet, or hold a run that ended (to remove it, to look whether it can go on).
        record |= {"status": said if said in ("finished", "stopped", "failed") else "running"}
        return record
    if said not in STATUSES or said == "running":
        owner = read_owner(paths.lock)
        record["status"] = "crashed"
        record["stop_reason"] = f"its process ({owner}) is gone" if owner else "it has no readable status"
    return record
