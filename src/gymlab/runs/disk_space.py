"""Disk space: what a run will need, checked before it starts, and clear errors when the disk fills up or fails."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gymlab.core.errors import RunError, UserError
from gymlab.core.format import format_bytes
from gymlab.runs.checkpoints import steps
from gymlab.runs.paths import RunPaths

_ROW_BYTES = 1536  # of one update in the metric store: about a hundred numbers
_OVERHEAD_BYTES = 6 * 2**20  # SQLite's write-ahead log grows to 4 MiB; the log, the manifest, the status
_MARGIN_BYTES = 2**20  # SQLite does not always say why a write failed; with less free space than this, the disk is full


_FULL = "the disk is full"
_READ_ONLY = "the run's folder can no longer be written"
_FAILS = "the disk fails"


class DiskFault(RunError):
    """The disk is full, read-only or failing; what was saved before is intact."""


class Room(NamedTuple):
    """The disk space a run needs."""

    checkpoint: int  # bytes of one
    keep: int  # periodic ones
    rows: int  # of metrics

    @property
    def checkpoints(self) -> int:
        """The most there are at a time: those that are kept, the best, the last and the one being written."""
        return self.keep + 3

    @property
    def needed(self) -> int:
        return self.checkpoints * self.checkpoint + self.rows * _ROW_BYTES + _OVERHEAD_BYTES


def check_room(folder: Path, room: Room, *, held: int = 0) -> None:
    """UserError unless the disk of the runs folder, which need not exist yet, has space for a run.

    `held` bytes are in use by the same run already. Nothing is written.
    """
    place = folder.absolute()
    while not os.path.lexists(place):
        place = place.parent
    needed = max(room.needed - held, room.checkpoint + _OVERHEAD_BYTES)
    try:
        free = shutil.disk_usage(place).free
    except OSError:  # a file system that does not report it: not checked
        return
    space = (
        f"the run needs about {format_bytes(needed, binary=True)} there and {format_bytes(free, binary=True)} are free"
    )
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = "a read-only folder" if place.is_dir() else "a file"
        where = "" if place == folder.absolute() else f" in '{place}'"
        raise UserError(
            f"runs folder '{folder}' cannot be written: it is {why}{where} ({space}): set $GYMLAB_RUNS to another"
        )
    if free < needed:
        raise UserError(
            f"runs folder '{folder}' has too little room: {space} ({room.checkpoints} checkpoints of "
            f"{format_bytes(room.checkpoint, binary=True)}, {room.rows} rows of metrics): free some space, "
            "set checkpoints.keep lower or $GYMLAB_RUNS to another folder"
        )


def disk_fault(error: BaseException, paths: RunPaths | None = None) -> DiskFault | None:
    """The DiskFault to raise for an error that the disk causes, naming the newest intact checkpoint of the run at
    `paths`; None for any other error. Libraries wrap disk errors in their own, so the causes are searched too.
    """
    causes = list(_causes(error))
    why = next((why for cause in causes if (why := _disk_problem(cause, paths)) is not None), None)
    if why is None:
        return None
    message = next((str(cause) for cause in causes if isinstance(cause, DiskFault)), None)
    return DiskFault(message or _message(why, paths))


def _message(why: str, paths: RunPaths | None) -> str:
    remedy = "free some space" if why == _FULL else "put that right"
    if paths is None:
        return f"{why}: the run could not start; {remedy} and try again"
    saved = steps(paths)
    if not saved:
        return f"{why} ({paths.root}): no checkpoint was saved yet; {remedy} and start the run again"
    return (
        f"{why} ({paths.root}): the last checkpoint {saved[0]} is intact; {remedy} and run: "
        f"gymlab resume {paths.run_id}"
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _disk_problem(error: BaseException, paths: RunPaths | None) -> str | None:
    """What is wrong with the disk if that caused the error, else None."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
            left = 0 if paths is None else shutil.disk_usage(paths.root).free
            return _FULL if left < _MARGIN_BYTES else _FAILS
        return {sqlite3.SQLITE_FULL: _FULL, sqlite3.SQLITE_READONLY: _READ_ONLY}.get(code)
    if isinstance(error, OSError):
        return {errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EROFS: _READ_ONLY, errno.EIO: _FAILS}.get(
            error.errno or 0
        )
    return None
