"""The texts a run writes: `run.log` with one older part, and `console.log` of a run without a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from gymlab.core.errors import RunError
from gymlab.runs import platform
from gymlab.runs.paths import RunPaths

MAX_BYTES = 5 * 2**20  # of each of the two parts
_POLL_SECONDS = 0.1
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")


def plain(text: str) -> str:
    """A text without escape sequences and control characters: safe to write to a log and to show in a terminal."""
    text = _ESCAPES.sub("", text)
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)


def older_part(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def console_log(paths: RunPaths) -> Path:
    """Where a detached process's output goes."""
    return paths.root / "console.log"


def open_append(path: Path) -> int:
    """A descriptor that adds to a plain file of ours, never through a link or into a pipe."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
        flags |= getattr(os, name, 0)
    fd = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise RunError(f"{path} is not a plain file")
    return fd


def tail(paths: RunPaths, count: int) -> list[str]:
    """The last lines of the run's log, oldest first."""
    return list(follow(paths, count, lambda: True))


def follow(paths: RunPaths, count: int, ended: Callable[[], bool]) -> Iterator[str]:
    """The last lines, then new ones as they are written, until `ended()` and nothing is left to read."""
    reader = _Reader(paths.log)
    try:
        yield from reader.last(count)
        while True:
            over = ended()  # asked first: what was written before the end is read after it
            lines = reader.more()
            yield from lines
            if lines or reader.next_part():
                continue
            if over:
                break
            time.sleep(_POLL_SECONDS)
    finally:
        reader.close()


class _Reader:
    """Reads a log that somebody writes and now and then puts aside to begin a new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open(path)

    def last(self, count: int) -> list[str]:
        kept: deque[str] = deque(maxlen=count)
        older = _open(older_part(self._path))
        if older is not None:
            with older:
                kept.extend(_lines(older))
        kept.extend(self.more())
        return list(kept)

    def more(self) -> list[str]:
        """Whole lines only: one that is half written is left for later."""
        return [] if self._file is None else list(_lines(self._file))

    def next_part(self) -> bool:
        """Go on with the new file where the old one was put aside; whether there is one."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path)):
                    return False
            self.close()
        self._file = _open(self._path)
        return self._file is not None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _lines(file: IO[bytes]) -> Iterator[str]:
    while (line := file.readline()).endswith(b"\n"):
        yield _text(line[:-1])
    if line:
        file.seek(-len(line), os.SEEK_CUR)


def _text(line: bytes) -> str:
    return plain(line.decode(errors="replace"))


def _open(path: Path) -> IO[bytes] | None:
    try:
        fd = platform.open_read(path)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return os.fdopen(fd, "rb")
