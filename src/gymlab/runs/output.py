"""The output of a process that nobody watches: it becomes a file, so its secrets are masked."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from typing import TextIO

from gymlab.runs.redact import argv_secrets, keep_secret, redact

_DRAIN_SECONDS = 1.0
_LONGEST_LINE = 2**16


class Redacting(io.TextIOBase):
    """A stream without secrets, a line at a time: what goes to a file is kept."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._line = ""

    def write(self, text: str) -> int:
        *whole, self._line = (self._line + text).split("\n")
        if whole:
            self._send("\n".join(whole) + "\n")
        return len(text)

    def flush(self) -> None:
        if not self._out.closed:
            self._send(self._line)
            self._line = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def fileno(self) -> int:
        return self._out.fileno()

    def _send(self, text: str) -> None:
        if text:
            self._out.write(redact(text))
        self._out.flush()


def redact_output(command: Sequence[str]) -> None:
    """For a process whose output becomes a file: all of it loses its secrets, those of its command line too.

    What Python prints here goes straight to the file. What env processes and C code write to the descriptors, which
    they share with us, goes through a pipe and a thread.
    """
    keep_secret(argv_secrets(command))
    file = os.dup(2)
    sys.stdout, sys.stderr = (Redacting(open(file, "w", encoding="utf-8", closefd=False)) for _ in range(2))  # noqa: SIM115
    reading, writing = os.pipe()
    for fd in (1, 2):
        os.dup2(writing, fd)
    os.close(writing)
    pump = threading.Thread(target=_pump, args=(reading, file), name="gymlab-output", daemon=True)
    pump.start()
    atexit.register(_drain, pump, file)


def _pump(reading: int, file: int) -> None:
    with os.fdopen(reading, "rb") as source:
        while line := source.readline(_LONGEST_LINE):  # progress bars write no line ends
            with contextlib.suppress(OSError):  # a full disk must not stop those who write
                os.write(file, redact(line.decode(errors="replace")).encode())


def _drain(pump: threading.Thread, file: int) -> None:
    """Let go of the pipe, so that the thread comes to its end; a process that still holds it is not waited for."""
    for fd in (1, 2):
        os.dup2(file, fd)
    pump.join(_DRAIN_SECONDS)
