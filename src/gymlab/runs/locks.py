"""Run locks: one writer per run, with a record of the owning process."""

from __future__ import annotations

import contextlib
import json
import os
import time
import weakref
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from gymlab.core.errors import RunError, UserError
from gymlab.runs import platform
from gymlab.runs.records import OwnerRecord

_PATIENCE = 0.2  # seconds: a probe (`lock_holder`) holds the lock for microseconds
_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


class RunLocked(UserError):
    """Another process is writing this run."""


@dataclass(frozen=True)
class Owner:
    """The process that holds, or last held, a run."""

    pid: int
    host: str
    start: str | None  # distinguishes this process from a later one with the same pid

    @classmethod
    def me(cls) -> Owner:
        return cls(os.getpid(), platform.host_name(), platform.process_start(os.getpid()))

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


class RunLock:
    """The lock of a run folder. The kernel releases it when the process ends, also when it is killed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock; RunLocked, naming the owner, if another process has it."""
        deadline = time.monotonic() + _PATIENCE
        while not self._try():
            if time.monotonic() > deadline:
                owner = read_owner(self.path)
                raise RunLocked(
                    f"run '{self.path.parent.name}' is in use by {owner or 'another process'}: "
                    "wait for it to end or stop it first"
                )
            time.sleep(0.01)

    def _try(self) -> bool:
        try:
            fd = platform.open_lock(self.path)
        except OSError as error:
            raise RunError(f"cannot lock {self.path}: {error.strerror}") from error
        try:
            if not platform.try_lock(fd) or not _same_file(fd, self.path):
                os.close(fd)
                return False
            record = json.dumps(asdict(Owner.me())).encode()
            os.lseek(fd, 0, os.SEEK_SET)
            os.write(fd, record)
            os.ftruncate(fd, len(record))
        except OSError as error:
            os.close(fd)
            raise RunError(f"cannot lock {self.path} ({error.strerror}): put the runs on a local disk") from error
        self._fd = fd
        _held.add(self)
        return True

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            _held.discard(self)

    @property
    def held(self) -> bool:
        return self._fd is not None


def _same_file(fd: int, path: Path) -> bool:
    """False where the run was removed between opening its lock and taking it."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), os.stat(path))
    return False


def read_owner(path: Path) -> Owner | None:
    """The process that holds or last held the lock; None if there is no readable record."""
    try:
        with os.fdopen(platform.open_read(path), "rb") as file:
            record: OwnerRecord = json.loads(file.read(4096).decode())
        return Owner(int(record["pid"]), str(record["host"]), record.get("start"))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def lock_holder(path: Path) -> Owner | None:
    """The live owner of a run, None if there is none. Correct after a kill -9 and for a reused pid."""
    try:
        fd = platform.open_read(path)
    except OSError:
        return None
    try:
        if not platform.is_locked(fd):
            return None
    finally:
        os.close(fd)
    return read_owner(path) or Owner(0, "an unknown host", None)


@contextlib.contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """A short critical section shared by processes."""
    fd = platform.open_lock(path)
    try:
        platform.wait_lock(fd)
        yield
    finally:
        os.close(fd)


def _release_in_child() -> None:
    # A forked child shares the lock: keeping it open would keep the run locked after its owner's death.
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
