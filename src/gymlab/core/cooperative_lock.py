"""Threads that take turns: of those that share a lock one goes on at a time, and steps aside while it waits.

Python lets only one of them compute anyway. Where dozens want to, passing the right to do so around at every small call
takes longer than the work itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_mine = threading.local()


@contextmanager
def taking_turns(turn: threading.Lock) -> Iterator[None]:
    """In here it is this thread's turn."""
    with turn:
        _mine.turn = turn
        try:
            yield
        finally:
            _mine.turn = None


@contextmanager
def aside() -> Iterator[None]:
    """Let others go on meanwhile; for a thread that takes no turns, nothing.

    Not where a lock is held that one of them may wait for when it has its turn: neither would ever go on.
    """
    turn: threading.Lock | None = getattr(_mine, "turn", None)
    if turn is None:
        yield
        return
    turn.release()
    try:
        yield
    finally:
        turn.acquire()
