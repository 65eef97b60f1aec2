"""Where a study is kept: a journal in the sweep's folder, or a database by its URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gymlab.campaigns.sweep.suggest import import_optuna
from gymlab.core.errors import UserError
from gymlab.runs import platform
from gymlab.runs.redact import redact


def open_storage(url: str | None, journal: Path) -> Any:
    """Optuna's storage; UserError where a database cannot be reached."""
    optuna = import_optuna()
    if url is None:
        journal.parent.mkdir(parents=True, exist_ok=True)
        backend = optuna.storages.journal.JournalFileBackend(str(journal), lock_obj=_JournalLock(journal))
        with _JournalLock(journal):  # mended before it is read
            return optuna.storages.JournalStorage(backend)
    if "://" not in url:
        raise UserError(f"--storage {url[:80]!r}: a database's URL, e.g. sqlite:///sweep.db or postgresql://host/name")
    try:
        return optuna.storages.RDBStorage(url, skip_compatibility_check=False)
    except ImportError as error:
        raise UserError(f"--storage {redact(url)}: {error.name or error} is not installed: pip install it") from error
    except Exception as error:
        told = str(error).splitlines()[0][:200]
        raise UserError(f"--storage {redact(url)} cannot be opened: {redact(told)}") from error


class _JournalLock:
    """Optuna's own lock is a file that outlives a killed process; this one ends with it.

    A line that a power cut left half written is cut off: what would be appended to it could not be read again.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._fd = -1

    def acquire(self) -> bool:
        self._fd = platform.open_lock(self._journal.with_suffix(".lock"))
        platform.wait_lock(self._fd)
        _mend(self._journal)
        return True

    def release(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _mend(journal: Path) -> None:
    if not journal.exists():
        return
    with journal.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
