"""The terminal is given back as it was found, and signals end a command in order."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_LEAVING = ("SIGTSTP", "SIGQUIT")  # Control-Z and Control-\\: the process goes, for now or for good, without unwinding
_AS_USUAL = b"\x1b[?25h\x1b[0m"  # cursor shown, no style


class Terminal:
    """Remembers how a terminal was set. `restore` may be called from any thread, more than once."""

    def __init__(self) -> None:
        self._out = _terminal(sys.stdout)
        self._in = _terminal(sys.stdin)
        self._settings: list[Any] | None = None
        with suppress(ImportError, OSError):
            import termios

            if self._in is not None:
                with suppress(termios.error):
                    self._settings = termios.tcgetattr(self._in)

    def restore(self) -> None:
        if self._out is not None:
            with suppress(OSError):
                os.write(self._out, _AS_USUAL)
        if self._in is None or self._settings is None:
            return
        import termios

        with suppress(OSError, termios.error):
            # Set from the background it would stop the process.
            if os.tcgetpgrp(self._in) == os.getpgrp() and termios.tcgetattr(self._in) != self._settings:
                termios.tcsetattr(self._in, termios.TCSANOW, self._settings)


@contextmanager
def left_in_order(terminal: Terminal) -> Iterator[None]:
    """Control-Z and Control-\\ find the terminal restored too; who draws or listens sees to it on coming back."""

    def leave(number: int, _frame: Any) -> None:
        terminal.restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, leave)  # it was continued

    numbers = [getattr(signal, name) for name in _LEAVING if hasattr(signal, name)]
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


def _terminal(stream: Any) -> int | None:
    with suppress(OSError, ValueError, AttributeError):  # closed, or not a file at all
        number: int = stream.fileno()
        return number if os.isatty(number) and os.environ.get("TERM") != "dumb" else None
    return None
