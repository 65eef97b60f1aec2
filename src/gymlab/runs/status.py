"""`status.json` of a run: read with a check of the lock, because a killed process leaves `running` behind."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import cast

from gymlab.core.errors import RunError
from gymlab.core.types import Json
from gymlab.runs import files
from gymlab.runs.locks import lock_holder, read_owner
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import StatusRecord

STATUSES = ("running", "finished", "stopped", "crashed", "failed")


def now() -> str:
    """The time of day for records that people read. Order and durations never depend on it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_record(path: Path) -> dict[str, Json]:
    """A JSON object from a file; {} if it is missing or damaged."""
    try:
        record = files.read_json(path)
    except (OSError, RunError):
        return {}
    return record if isinstance(record, dict) else {}


def read_status(paths: RunPaths) -> StatusRecord:
    """The run's status record; `running` becomes `crashed` if no process holds the run's lock."""
    holder = lock_holder(paths.lock)  # first: a run that ends in between has then written its final status
    record = cast("StatusRecord", read_record(paths.status))
    stored = record.get("status")
    if holder is not None:
        # The owner may not have written it yet, or holds a run that has ended (to remove or resume it).
        record["status"] = stored if stored in ("finished", "stopped", "failed") else "running"
        return record
    if stored not in STATUSES or stored == "running":
        owner = read_owner(paths.lock)
        record["status"] = "crashed"
        record["stop_reason"] = f"its process ({owner}) is gone" if owner else "it has no readable status"
    if filming := _films_being_made(paths):
        record["filming"] = filming
    return record


def _films_being_made(paths: RunPaths) -> int:
    if not paths.pending_videos.is_dir():
        return 0
    from gymlab.runs.videos import recorder_of, scan_pending

    return 0 if recorder_of(paths) is None else len(scan_pending(paths))
