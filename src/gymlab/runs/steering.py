"""Steering a run from outside: requests are files in its folder, which its owner takes away and answers.

A file per request, so that two pages never undo each other; each names the owner it is meant for, so that none waits
for a later session. `steering.json` is the owner's answer: whether the run is paused, and where.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args

from gymlab.core.errors import UserError
from gymlab.runs import files
from gymlab.runs.locks import Owner, lock_holder
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_record

Wish = Literal["pause", "step", "go_on", "evaluate", "checkpoint"]
WISHES: tuple[Wish, ...] = get_args(Wish)
_MOST = 100  # requests taken at a time: what a broken program floods is left


def ask(paths: RunPaths, wish: Wish) -> None:
    """Ask the process that trains a run; UserError where there is none."""
    owner = lock_holder(paths.lock)
    if owner is None:
        raise UserError(f"run '{paths.run_id}' is not running")
    folder = paths.inside(_folder(paths))
    folder.mkdir(exist_ok=True)
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}.json"
    files.write_json(folder / name, {"wish": wish, "owner": asdict(owner)}, durable=False)


def take(paths: RunPaths, owner: Owner) -> Iterator[Wish]:
    """What was asked of `owner` since last time, oldest first; each is gone once it was taken."""
    for path in _waiting(paths):
        record = read_record(path)
        with contextlib.suppress(OSError):
            path.unlink()
        wish = record.get("wish")
        if wish in WISHES and record.get("owner") == asdict(owner):
            yield wish


def clear(paths: RunPaths) -> None:
    """Forget what was asked, and the answer."""
    for path in (*_waiting(paths), _answer(paths)):
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        _folder(paths).rmdir()


def tell(paths: RunPaths, *, paused: bool, updates: int) -> None:
    """The owner's answer."""
    files.write_json(_answer(paths), {"paused": paused, "updates": updates}, durable=False)


def told(paths: RunPaths) -> dict[str, Any]:
    """What the owner answered: `paused` and `updates`; {} where nobody ever asked."""
    return read_record(_answer(paths))


def _waiting(paths: RunPaths) -> list[Path]:
    try:
        with os.scandir(_folder(paths)) as found:
            names = sorted(entry.name for entry in found if entry.name.endswith(".json") and entry.name[0] != ".")
    except OSError:
        return []
    return [_folder(paths) / name for name in names[:_MOST]]


def _folder(paths: RunPaths) -> Path:
    return paths.root / "requests"


def _answer(paths: RunPaths) -> Path:
    return paths.root / "steering.json"
