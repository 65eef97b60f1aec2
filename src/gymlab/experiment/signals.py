"""SIGINT and SIGTERM end a run cleanly: the first one after the current update, the second one at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

HANDLED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM") if hasattr(signal, name))


class Interrupts:
    """Which signal came, if any."""

    received: int | None = None

    @property
    def exit_code(self) -> int | None:
        """130 after SIGINT, 143 after SIGTERM, None when none came."""
        return None if self.received is None else 128 + self.received


@contextmanager
def watch_signals(interrupt: Callable[[str], None]) -> Iterator[Interrupts]:
    """Call `interrupt(reason)` on the first signal. Elsewhere than in the main thread signals are left alone."""
    seen = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def handle(number: int, _frame: FrameType | None) -> None:
        if seen.received is not None:
            os._exit(128 + number)
        seen.received = number
        interrupt(f"interrupted by {signal.Signals(number).name}")

    before = {number: signal.signal(number, handle) for number in HANDLED}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
