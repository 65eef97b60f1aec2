"""Screen: a frame of styled lines redrawn in place at the end of a terminal's text; other output scrolls above it.

Used instead of `rich.Live` because a training must never wait for its terminal: a frame is skipped while the terminal
accepts no output (Ctrl-S, a slow line) or while the process is in the background, and drawing resumes after `fg`.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TextIO

from gymlab.terminal.keyboard import in_foreground

SEVERITY_STYLES = {"info": "dim", "warning": "yellow", "critical": "bold red"}  # of alerts, the worst last
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
_HIDE_CURSOR = "\x1b[?25l"
_SHOW_CURSOR = "\x1b[?25h"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"
_CLEAR_ALL = "\x1b[H\x1b[2J"
_KEPT_LINES = 100  # printed lines that are remembered, for redrawing everything


class Span(NamedTuple):
    """Text with a style, which becomes ANSI codes only when it is rendered for a terminal."""

    text: str
    style: str = ""  # words of the table above, e.g. "bold blue"


StyledLine = list[Span]


def plain_text(line: Iterable[Span]) -> str:
    """A line without its styles."""
    return "".join(span.text for span in line)


def crop(text: str, width: int) -> str:
    """At most `width` characters; the last one is an ellipsis if something was cut off."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"[:width]


def render(line: Iterable[Span], width: int, *, colour: bool = True) -> str:
    """A line with ANSI codes, cropped to `width` columns so that it does not wrap."""
    parts = []
    left = width
    for text, style in line:
        visible = crop(text, left)
        left -= len(visible)
        codes = [_CODES[word] for word in style.split()] if colour else []
        parts.append(f"\x1b[{';'.join(codes)}m{visible}\x1b[0m" if codes and visible.strip() else visible)
    return "".join(parts)


def supports_ansi(stream: TextIO) -> bool:
    """Whether a stream is a terminal that understands ANSI escape codes."""
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
        self._printed: deque[StyledLine] = deque(maxlen=_KEPT_LINES)
        self._height = 0
        self._size = self.size()
        self._frame: Sequence[StyledLine] = ()
        self._streams: tuple[Any, Any] | None = None

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            columns, rows = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            columns = rows = 0
        return columns or 80, rows or 24

    def start(self) -> None:
        """From now on text written to stdout or stderr, where they are terminals, is printed above the frame."""
        self._streams = sys.stdout, sys.stderr
        if sys.stdout is self._stream or sys.stdout.isatty():
            sys.stdout = _LinesAbove(sys.stdout, self.print)
        if sys.stderr.isatty():
            sys.stderr = _LinesAbove(sys.stderr, self.print)

    def stop(self, lines_below: int = 0) -> None:
        """Remove the frame; `lines_below` is how many lines a signal handler has written below it."""
        if self._streams is not None:
            for stream in (sys.stdout, sys.stderr):
                if isinstance(stream, _LinesAbove):
                    stream.flush_rest()
            sys.stdout, sys.stderr = self._streams
            self._streams = None
            self._height += lines_below if self._height else 0
            self._write(self._to_top() + _CLEAR_BELOW + _SHOW_CURSOR)
            self._height = 0
            self._frame = ()

    def print(self, *lines: StyledLine) -> None:
        """Print lines above the frame, uncropped: they may wrap."""
        self._printed.extend(lines)
        text = "".join(f"{self._render_whole(line)}{_CLEAR_LINE}\r\n" for line in lines)
        if self._streams is None or not self._in_foreground():
            self._write(text)
            return
        self._write(self._to_top() + _CLEAR_BELOW + text + self._render_frame(self._frame))

    def draw(self, frame: Sequence[StyledLine]) -> None:
        """Replace the frame. Skipped in the background and while the terminal accepts no output."""
        if not self._in_foreground() or not self._accepts_output():
            return
        size = self.size()
        resized = size != self._size
        self._size = size
        # Terminals differ in how they reflow existing lines on a resize: redraw everything.
        if resized:
            self._write(self._render_printed(frame) + self._render_frame(frame))
        elif frame != self._frame or not self._height:
            self._write(self._to_top() + self._render_frame(frame))

    def clear(self) -> None:
        """Redraw everything on an empty screen, after something else has written to the terminal (Ctrl-L)."""
        self._write(self._render_printed(self._frame) + self._render_frame(self._frame))

    def forget(self) -> None:
        """Leave the old frame where it is and draw the next one below (after `fg`: the shell has written since)."""
        self._height = 0

    def _render_frame(self, frame: Sequence[StyledLine]) -> str:
        columns, rows = self._size
        self._frame = frame
        visible = frame[: max(rows - 1, 1)]
        self._height = len(visible)
        lines = (render(line, columns - 1, colour=self._colour) + _CLEAR_LINE for line in visible)
        return _HIDE_CURSOR + "\r\n".join(lines) + _CLEAR_BELOW

    def _to_top(self) -> str:
        return "\r" + (f"\x1b[{self._height - 1}A" if self._height > 1 else "")

    def _render_printed(self, frame: Sequence[StyledLine]) -> str:
        columns, rows = self._size
        kept: list[str] = []
        room = rows - len(frame)
        for line in reversed(self._printed):
            room -= 1 + sum(len(span.text) for span in line) // columns
            if room < 0:
                break
            kept.append(self._render_whole(line) + "\r\n")
        return _CLEAR_ALL + "".join(reversed(kept))

    def _render_whole(self, line: Iterable[Span]) -> str:
        return render(line, 1 << 20, colour=self._colour)

    def _in_foreground(self) -> bool:
        with suppress(OSError, ValueError):  # a stream without a file descriptor
            return in_foreground(self._stream.fileno())
        return True

    def _accepts_output(self) -> bool:
        """False after Ctrl-S and while a slow line's buffer is full."""
        if sys.platform == "win32":
            return True
        with suppress(OSError, ValueError):
            return bool(select.select([], [self._stream.fileno()], [], 0)[1])
        return True

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


class _LinesAbove(io.TextIOBase):
    """Replaces sys.stdout or sys.stderr: complete lines written to it are printed above the frame."""

    def __init__(self, stream: TextIO, print_line: Callable[[StyledLine], None]) -> None:
        self._stream = stream
        self._print_line = print_line
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._print_line([Span(line)])
        return len(text)

    def flush_rest(self) -> None:
        """Print the last line if it has no newline."""
        if self._rest:
            self.write("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()
