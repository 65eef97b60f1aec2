"""A screen made of coloured half blocks, and keys read one by one: playing in any terminal, tmux too."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from typing import IO, Self

import numpy as np

from gymlab.terminal.keyboard import Keyboard, terminal_fd

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_MOST_FPS = 20  # more would only fill the line to the terminal


def shrunk(picture: np.ndarray, width: int, height: int) -> np.ndarray:
    """The picture at another, smaller size: every new pixel is the mean of those it covers."""
    rows = np.linspace(0, picture.shape[0], min(height, picture.shape[0]) + 1).astype(int)
    columns = np.linspace(0, picture.shape[1], min(width, picture.shape[1]) + 1).astype(int)
    sums = np.add.reduceat(picture.astype(np.float32), rows[:-1], axis=0)
    sums = np.add.reduceat(sums, columns[:-1], axis=1)
    return (sums / np.diff(rows)[:, None, None] / np.diff(columns)[None, :, None]).astype(np.uint8)


def half_blocks(picture: np.ndarray, columns: int, lines: int, *, true_colour: bool) -> list[str]:
    """The picture as lines of text: each character shows one pixel above another."""
    height, width = picture.shape[:2]
    scale = min(columns / width, 2 * lines / height)
    small = shrunk(picture, max(1, int(width * scale)), max(2, int(height * scale)))
    if len(small) % 2:
        small = np.concatenate([small, small[-1:]])
    codes = _codes(small, true_colour)
    drawn = []
    for upper, lower in zip(codes[::2], codes[1::2], strict=True):
        parts = []
        before = ("", "")
        for pair in zip(upper, lower, strict=True):
            if pair != before:
                parts.append(f"\x1b[38;{pair[0]};48;{pair[1]}m")
                before = pair
            parts.append("▀")
        drawn.append("".join(parts) + "\x1b[0m")
    return drawn


def _codes(small: np.ndarray, true_colour: bool) -> list[list[str]]:
    if true_colour:
        return [[f"2;{r};{g};{b}" for r, g, b in row] for row in small.tolist()]
    cube = np.rint(small / 255 * 5).astype(int)
    numbers = 16 + 36 * cube[..., 0] + 6 * cube[..., 1] + cube[..., 2]
    return [[f"5;{number}" for number in row] for row in numbers.tolist()]


class TerminalScreen:
    """Shows pictures and captions on a terminal, and reads its keys. To be left on every way out."""

    def __init__(self, out: IO[str] | None = None) -> None:
        self._out = out or sys.stdout
        self._true_colour = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        fd = terminal_fd(sys.stdin)
        self._keyboard = None if fd is None else Keyboard(fd)
        if self._keyboard is not None:
            self._keyboard.open()
        self._out.write(_ENTER)
        self._out.flush()
        return self

    def __exit__(self, *_: object) -> None:
        if self._keyboard is not None:
            self._keyboard.restore()
        with contextlib.suppress(OSError, ValueError):
            self._out.write(_LEAVE)
            self._out.flush()

    def show(self, picture: np.ndarray | str, caption: list[str], *, now: bool = False) -> None:
        """Draw, unless the terminal was drawn a moment ago."""
        if not now and time.monotonic() - self._drawn_at < 1 / _MOST_FPS:
            return
        self._drawn_at = time.monotonic()
        columns, lines = shutil.get_terminal_size()
        room = max(2, lines - len(caption) - 1)
        if isinstance(picture, str):
            body = picture.splitlines()[:room]
        else:
            body = half_blocks(picture, columns, room, true_colour=self._true_colour)
        text = "\x1b[K\r\n".join([*body, *(line[: columns - 1] for line in caption)])
        self._out.write(f"\x1b[H{text}\x1b[J")
        self._out.flush()

    def keys(self, seconds: float) -> list[str]:
        """Keys pressed, waiting for the first at most so long."""
        if self._keyboard is None:
            time.sleep(seconds)
            return []
        return self._keyboard.read(seconds)


class NoScreen:
    """Shows nothing: stdout is a pipe or the log of a batch job."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, picture: np.ndarray | str, caption: list[str], *, now: bool = False) -> None:
        """Nothing to show it on."""

    def keys(self, seconds: float) -> list[str]:  # noqa: ARG002 - no keyboard to wait for
        return []
