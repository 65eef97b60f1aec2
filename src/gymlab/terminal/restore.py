"""Restores a terminal's settings and cursor on every way out of a command, also on Ctrl-Z and Ctrl-\\."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from gymlab.terminal.keyboard import in_foreground, terminal_fd

_STOP_SIGNALS = ("SIGTSTP", "SIGQUIT")  # Ctrl-Z and Ctrl-\\: they stop or end the process without unwinding
_RESET = b"\x1b[?25h\x1b[0m"  # show the cursor, no style


class TerminalSettings:
    """The termios settings at construction. `restore` may be called from any thread, more than once."""

    def __init__(self) -> None:
        self._out = _drawable_fd(sys.stdout)
        self._in = _drawable_fd(sys.stdin)
        self._settings: list[Any] | None = None
        with suppress(ImportError, OSError):
            import termios

            if self._in is not None:
                with suppress(termios.error):
                    self._settings = termios.tcgetattr(self._in)

    def restore(self) -> None:
        if self._out is not None:
            with suppress(OSError):
                os.write(self._out, _RESET)
        if self._in is None or self._settings is None:
            return
        import termios

        with suppress(OSError, termios.error):
            # In the background tcsetattr would stop the process (SIGTTOU).
            if in_foreground(self._in) and termios.tcgetattr(self._in) != self._settings:
                termios.tcsetattr(self._in, termios.TCSANOW, self._settings)


@contextmanager
def restored_on_stop_signals(terminal: TerminalSettings) -> Iterator[None]:
    """Restore the terminal before Ctrl-Z and Ctrl-\\ take effect; screen and keyboard set it again after `fg`."""

    def leave(number: int, _frame: FrameType | None) -> None:
        terminal.restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, leave)  # after SIGCONT

    numbers = [getattr(signal, name) for name in _STOP_SIGNALS if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _drawable_fd(stream: Any) -> int | None:
    return None if os.environ.get("TERM") == "dumb" else terminal_fd(stream)
