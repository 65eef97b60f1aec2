"""Keyboard: reads single key presses from a terminal (termios, no echo) and parses escape sequences."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from contextlib import suppress
from typing import Any, TextIO

if sys.platform != "win32":
    import termios

CONTINUED = "continued"  # reported like a key after the process was stopped or in the background
_TOKENS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[^\x1b]|[^\x1b\[O])|.", re.DOTALL)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)$")
_NAMES = {" ": "space", "\n": "enter", "\r": "enter", "\x1b": "escape"}
_ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}


def terminal_fd(stream: TextIO | None) -> int | None:
    """The file descriptor of a stream that is a terminal, else None."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or not a file at all
        number: int = stream.fileno()  # type: ignore[union-attr]
        return number if os.isatty(number) else None
    return None


class Keyboard:
    """A terminal in cbreak mode without echo, read only while this process is in the foreground."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._original: list[Any] | None = None  # settings before `open`
        self._closed = False
        self._unfinished = ""

    def open(self) -> None:
        """Start reading single keys, unless the process is in the background."""
        with suppress(OSError):
            if in_foreground(self._fd):
                self._set_cbreak()

    def restore(self) -> None:
        if sys.platform == "win32" or self._original is None:
            return
        with suppress(OSError, termios.error):
            if in_foreground(self._fd):  # in the background tcsetattr would stop the process (SIGTTOU)
                termios.tcsetattr(self._fd, termios.TCSANOW, self._original)
        self._original = None

    def read(self, seconds: float = 0.0) -> list[str]:
        """The keys pressed since the last call; waits at most `seconds` for the first one."""
        deadline = time.monotonic() + seconds
        keys: list[str] = []
        if sys.platform != "win32" and not self._closed:
            try:
                if in_foreground(self._fd):
                    keys = [CONTINUED] * self._set_cbreak()
                    keys += self._read_available(0.0 if keys else seconds)
            except (OSError, termios.error):
                self._closed = True  # the terminal was closed
        if not keys:
            time.sleep(max(deadline - time.monotonic(), 0.0))
        return keys

    def _read_available(self, seconds: float) -> list[str]:
        if not select.select([self._fd], [], [], seconds)[0]:
            return []
        data = os.read(self._fd, 1024)
        self._closed = not data
        keys, self._unfinished = parse_keys(self._unfinished + data.decode(errors="replace"))
        return keys

    def _set_cbreak(self) -> bool:
        """Whether settings had to be changed: at first, and after another process has had the terminal."""
        if sys.platform == "win32":
            return False
        settings = termios.tcgetattr(self._fd)
        if not settings[3] & (termios.ICANON | termios.ECHO):
            return False
        self._original = [*settings]
        settings[3] &= ~(termios.ICANON | termios.ECHO)
        settings[6] = [*settings[6]]
        settings[6][termios.VMIN] = 1
        settings[6][termios.VTIME] = 0
        termios.tcsetattr(self._fd, termios.TCSANOW, settings)
        return True


def parse_keys(text: str) -> tuple[list[str], str]:
    """Key names in a terminal's input, and an unfinished escape sequence at its end.

    Characters are their own names, except space, enter, escape and the arrows; other sequences (function keys, Alt
    and a letter) are dropped.
    """
    unfinished = _UNFINISHED.search(text)
    rest = unfinished[0] if unfinished else ""
    keys = []
    for token in _TOKENS.findall(text.removesuffix(rest)):
        if len(token) == 1:
            keys.append(_NAMES.get(token, token))
        elif len(token) == 3 and token[-1] in _ARROWS:
            keys.append(_ARROWS[token[-1]])
    return keys, rest


def in_foreground(fd: int) -> bool:
    """Whether this process is in the terminal's foreground process group, or there is no job control."""
    with suppress(OSError, AttributeError):  # not the controlling terminal; Windows
        return os.tcgetpgrp(fd) == os.getpgrp()
    return True
