"""Operating system differences, all in this file: file locks, fsync of folders, process identity, cores."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import sys
import time
from pathlib import Path

from gymlab.core.cooperative_lock import yield_lock

TERMINATE = signal.SIGTERM
_LOCK_BYTE = 1 << 30  # Windows locks are mandatory: this byte lies beyond the owner record, which stays readable

if sys.platform == "win32":
    import msvcrt

    def _flock(fd: int, *, exclusive: bool) -> bool:
        del exclusive  # no shared lock on Windows; a probe releases it at once
        os.lseek(fd, _LOCK_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _flock_wait(fd: int) -> None:
        while not _flock(fd, exclusive=True):
            time.sleep(0.005)

    def unlock(fd: int) -> None:
        """Release a lock."""
        os.lseek(fd, _LOCK_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _flock(fd: int, *, exclusive: bool) -> bool:
        try:
            fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _flock_wait(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)

    def unlock(fd: int) -> None:
        """Release a lock."""
        fcntl.flock(fd, fcntl.LOCK_UN)


def try_lock(fd: int) -> bool:
    """Take the exclusive lock of an open file; False if another process holds it.

    The kernel releases it when the process ends, also when killed: there are no stale locks.
    """
    return _flock(fd, exclusive=True)


def wait_lock(fd: int) -> None:
    """Take the exclusive lock, waiting as long as it takes."""
    with yield_lock():  # the holder may be another thread, which needs the lock to release it
        _flock_wait(fd)


def is_locked(fd: int) -> bool:
    """Whether another open file holds the exclusive lock."""
    if not _flock(fd, exclusive=False):
        return True
    unlock(fd)
    return False


def open_lock(path: Path) -> int:
    """A descriptor to lock: not inherited by programs we start, and never through a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | _flag("O_CLOEXEC") | _flag("O_NOFOLLOW") | _flag("O_BINARY"), 0o666)


def open_new(path: Path) -> int:
    """A descriptor for a file that must not exist yet."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flag("O_CLOEXEC") | _flag("O_NOFOLLOW") | _flag("O_BINARY")
    return os.open(path, flags, 0o666)


def open_read(path: Path) -> int:
    """A descriptor for reading that refuses a link in the last place."""
    return os.open(path, os.O_RDONLY | _flag("O_CLOEXEC") | _flag("O_NOFOLLOW") | _flag("O_BINARY"))


def _flag(name: str) -> int:
    return int(getattr(os, name, 0))


def fsync_folder(path: Path) -> None:
    """Fsync a folder, which makes renames in it durable; Windows does so by itself."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY | _flag("O_DIRECTORY") | _flag("O_CLOEXEC"))
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(source: Path, target: Path) -> None:
    """Rename over `target`. Windows refuses while it is open elsewhere, so it is retried there."""
    for _ in range(50 if sys.platform == "win32" else 0):
        with contextlib.suppress(PermissionError):
            os.replace(source, target)
            return
        time.sleep(0.01)
    os.replace(source, target)


def host_name() -> str:
    """The host name of this machine."""
    return socket.gethostname()


def process_start(pid: int) -> str | None:
    """The start time of a process, in ticks since boot: with the pid it identifies a process. None if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]  # the command before it may hold spaces and brackets


def signal_process(pid: int, start: str, number: int) -> bool:
    """Signal the process with this start time; False if there is none, or if that cannot be checked."""
    if sys.platform == "win32":
        return False
    if not hasattr(os, "pidfd_open"):
        if process_start(pid) != start:
            return False
        with contextlib.suppress(OSError):
            os.kill(pid, number)
            return True
        return False
    try:
        handle = os.pidfd_open(pid)  # from here on a reused pid is not signalled
    except OSError:
        return False
    try:
        if process_start(pid) != start:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


@functools.cache
def usable_cores() -> int:
    """Cores this process may run on: containers and taskset allow fewer than the machine has.

    Cached: JAX creates its threads once, also in a process that is pinned to fewer cores later.
    """
    if sys.platform != "linux":
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(0))


def cpu_model() -> str:
    """The processor's model name, as the system reports it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    import platform

    return platform.processor() or platform.machine()
