"""Reading and following a run's logs: `run.log` with its rotated part, and `console.log` of a detached run."""

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


def strip_escapes(text: str) -> str:
    """The text without escape sequences and control characters: safe for logs and terminals."""
    text = _ESCAPES.sub("", text)
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)


def older_part(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def console_log(paths: RunPaths) -> Path:
    """Where a detached process's output goes."""
    return paths.root / "console.log"


def open_append(path: Path) -> int:
    """A descriptor for appending to a regular file; links and pipes are refused."""
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
            over = ended()  # before reading: what was written before the end is then read
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
    """Reads a log that another process writes and rotates."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _open(path)

    def last(self, count: int) -> list[str]:
        lines: deque[str] = deque(maxlen=count)
        older = _open(older_part(self._path))
        if older is not None:
            with older:
                lines.extend(_lines(older))
        lines.extend(self.more())
        return list(lines)

    def more(self) -> list[str]:
        """New complete lines; an incomplete one is left for the next call."""
        return [] if self._file is None else list(_lines(self._file))

    def next_part(self) -> bool:
        """Switch to the new file if the log was rotated; whether there is one."""
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
    return strip_escapes(line.decode(errors="replace"))


def _open(path: Path) -> IO[bytes] | None:
    try:
        fd = platform.open_read(path)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return os.fdopen(fd, "rb")
