"""Cooperative lock: one thread runs at a time and releases the lock while it blocks.

Python lets only one thread compute anyway. With dozens of them, passing the interpreter's lock around at every small
call takes longer than the work itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_thread = threading.local()


@contextmanager
def hold_lock(lock: threading.Lock) -> Iterator[None]:
    """Run the block with the lock held, as the thread's cooperative lock."""
    with lock:
        _thread.lock = lock
        try:
            yield
        finally:
            _thread.lock = None


@contextmanager
def yield_lock() -> Iterator[None]:
    """Release the thread's cooperative lock during the block; nothing in a thread that holds none.

    Do not use it while holding another lock that a waiting thread needs once it runs: both would block forever.
    """
    lock: threading.Lock | None = getattr(_thread, "lock", None)
    if lock is None:
        yield
        return
    lock.release()
    try:
        yield
    finally:
        lock.acquire()


def sleep(seconds: float) -> None:
    """`time.sleep` that releases the thread's cooperative lock meanwhile."""
    with yield_lock():
        time.sleep(seconds)
