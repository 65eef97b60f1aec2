"""Parent watch: the child's side of `process.child`, which exits when its parent has exited or was killed.

The parent holds the other end of our stdin: it closes when the parent exits or is killed. So stdin both carries
the parent's messages and shows that it is alive.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TextIO


def own_stdout() -> TextIO:
    """The pipe to the parent as a text stream; redirects later prints to stderr."""
    line = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(line, "w")


class ParentPipe:
    """Lines from the parent on stdin, replies on stdout. Make it before anything can print.

    Later prints are redirected to stderr, so that they do not mix with the replies. Reads the descriptor itself,
    because a thread that waits in `sys.stdin` aborts the interpreter at its exit.
    """

    def __init__(self) -> None:
        self._replies = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._sending = threading.Lock()
        self._buffer = b""

    def send(self, line: str, payload: bytes = b"") -> None:
        """Write a line, followed by bytes. Does nothing where the parent has exited."""
        with self._sending:
            try:
                self._replies.write(line.encode() + b"\n" + payload)
                self._replies.flush()
            except OSError:
                return

    def read_line(self) -> str | None:
        """Wait for the next line; None at the end of stdin."""
        while b"\n" not in self._buffer:
            more = os.read(0, 1 << 16)
            if not more:
                return None
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def read_opening(self) -> str:
        """Wait for the first line; exits where the parent exits before it was sent."""
        line = self.read_line()
        if line is None:
            os._exit(1)
        return line

    def listen(
        self,
        on_line: Callable[[str], None] | None = None,
        *,
        at_end: Callable[[], None] | None = None,
        exit_code: int = 0,
    ) -> None:
        """Start a thread that calls `on_line` with every line. At the end of stdin it calls `at_end` and exits the
        process at once, without waiting for other threads."""

        def read() -> None:
            while (line := self.read_line()) is not None:
                if on_line is not None:
                    on_line(line)
            if at_end is not None:
                at_end()
            os._exit(exit_code)

        threading.Thread(target=read, daemon=True).start()


def exit_in_native_code() -> None:
    """Exit with the parent even where C code hangs while it holds the GIL, which stops all threads.

    The kernel sends SIGIO, which ends a process by default, when the other end of stdin is closed or written to: for
    children that are sent no more lines.
    """
    if sys.platform != "win32":
        import fcntl

        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def ignore_signals(*names: str) -> None:
    """Ignore signals that reach the whole process group, such as Ctrl-C: the parent decides when to stop.

    By a handler that does nothing: `SIG_IGN` would be inherited by what an env starts, whose `close` could then wait
    for ever for a simulator that it has sent SIGTERM.
    """
    for name in names:
        if hasattr(signal, name):  # Windows lacks some
            signal.signal(getattr(signal, name), _do_nothing)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    del number, frame
