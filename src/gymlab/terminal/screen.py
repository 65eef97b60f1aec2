"""A few lines at the end of a terminal's text that are drawn again in place, while other lines are printed above."""

from __future__ import annotations

import io
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TextIO

from gymlab.terminal.ansi import Line, Span, written

_HIDE = "\x1b[?25l"
_SHOW = "\x1b[?25h"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"
_CLEAR_ALL = "\x1b[H\x1b[2J"
_KEPT = 100  # printed lines, for when everything must be drawn again


def understands_escapes(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can be drawn on."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return False
    if sys.platform == "win32":
        import ctypes

        kernel = ctypes.windll.kernel32
        return bool(kernel.SetConsoleMode(kernel.GetStdHandle(-11), 7))  # the output handle; 4 of 7 are escapes
    return True


class Screen:
    """Owns the end of a terminal between `start` and `stop`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._colour = not os.environ.get("NO_COLOR")
        self._printed: deque[Line] = deque(maxlen=_KEPT)
        self._height, self._size = 0, self.size()
        self._frame: Sequence[Line] = ()
        self._streams: tuple[Any, Any] | None = None

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            columns = rows = 0
        return columns or 80, rows or 24

    def start(self) -> None:
        """From now on what anybody prints goes above the frame."""
        self._streams = sys.stdout, sys.stderr
        sys.stdout = _Above(self._stream, self.print)
        if sys.stderr.isatty():
            sys.stderr = _Above(sys.stderr, self.print)

    def stop(self, lines_below: int = 0) -> None:
        """Take the frame away; `lines_below` it somebody else has written something."""
        if self._streams is not None:
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, _Above):
                    stream.end()
            sys.stdout, sys.stderr = self._streams
            self._streams = None
            self._height += lines_below if self._height else 0
            self._write(self._home() + _CLEAR_BELOW + _SHOW)
            self._height = 0
            self._frame = ()

    def print(self, *lines: Line) -> None:
        """Above the frame, once, whole: these lines may wrap."""
        self._printed.extend(lines)
        text = "".join(f"{self._whole(line)}{_CLEAR_LINE}\r\n" for line in lines)
        if self._streams is None or not self._in_front():
            self._write(text)
            return
        self._write(self._home() + _CLEAR_BELOW + text + self._drawn(self._frame))

    def draw(self, frame: Sequence[Line]) -> None:
        """Put a new frame where the last one is. Left out where nobody can see it or it would have to wait."""
        if not self._in_front() or not self._ready():
            return
        size = self.size()
        resized = size != self._size
        self._size = size
        # How a terminal wraps old lines anew when its width changes is anybody's guess: all is drawn again.
        if resized:
            self._write(self._all_again(frame) + self._drawn(frame))
        elif frame != self._frame or not self._height:
            self._write(self._home() + self._drawn(frame))

    def clear(self) -> None:
        """Begin with an empty screen: something else has written on it."""
        self._write(self._all_again(self._frame) + self._drawn(self._frame))

    def forget(self) -> None:
        """The frame is somewhere above and stays there."""
        self._height = 0

    def _drawn(self, frame: Sequence[Line]) -> str:
        columns, rows = self._size
        self._frame = frame
        shown = frame[: max(rows - 1, 1)]
        self._height = len(shown)
        lines = (written(line, columns - 1, colour=self._colour) + _CLEAR_LINE for line in shown)
        return _HIDE + "\r\n".join(lines) + _CLEAR_BELOW

    def _home(self) -> str:
        return "\r" + (f"\x1b[{self._height - 1}A" if self._height > 1 else "")

    def _all_again(self, frame: Sequence[Line]) -> str:
        columns, rows = self._size
        kept: list[str] = []
        room = rows - len(frame)
        for line in reversed(self._printed):
            room -= 1 + sum(len(span.text) for span in line) // columns
            if room < 0:
                break
            kept.append(self._whole(line) + "\r\n")
        return _CLEAR_ALL + "".join(reversed(kept))

    def _whole(self, line: Iterable[Span]) -> str:
        return written(line, 1 << 20, colour=self._colour)

    def _in_front(self) -> bool:
        with suppress(OSError, AttributeError):  # no job control here
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()
        return True

    def _ready(self) -> bool:
        """Whether the terminal takes text now: after Control-S, or over a slow line, it does not."""
        if sys.platform == "win32":
            return True
        with suppress(OSError, ValueError):
            return bool(select.select([], [self._stream.fileno()], [], 0)[1])
        return True

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


class _Above(io.TextIOBase):
    """Stands for a stream; whole lines written to it are printed above the frame."""

    def __init__(self, stream: TextIO, tell: Callable[[Line], None]) -> None:
        self._stream = stream
        self._tell = tell
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._tell([Span(line)])
        return len(text)

    def end(self) -> None:
        """What is left of a line that nobody ended."""
        if self._rest:
            self.write("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()
