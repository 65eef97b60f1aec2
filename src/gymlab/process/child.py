"""Another process of ours that is spoken to in lines: new interpreters, never forks, and none outlives its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TextIO

from gymlab.process.environ import child_environ


class Child:
    """A module of ours run as a program. Every line it says goes to `hear`, from a thread; None is its end."""

    def __init__(
        self, module: str, hear: Callable[[str | None], None], environ: Mapping[str, str] | None = None
    ) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=child_environ(**(environ or {})),
            text=True,
        )
        threading.Thread(target=self._listen, args=(hear,), daemon=True).start()

    def say(self, line: str) -> None:
        """One that is dead already does not hear it; whoever listens learns of its end."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def hang_up(self) -> None:
        """No more is said: it ends when it has done what it was told."""
        assert self._process.stdin is not None
        with suppress(OSError, ValueError):
            self._process.stdin.close()

    def last_words(self) -> str:
        """The end of what it wrote to stderr, for a message."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "no message"

    def end(self, seconds: float) -> None:
        """Have it end: by itself in so many seconds, or by force."""
        self.hang_up()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self._process.kill()
        self._process.wait()
        self._stderr.close()

    def _listen(self, hear: Callable[[str | None], None]) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as said:
            for line in said:
                hear(line)
        hear(None)


def own_stdout() -> TextIO:
    """In a child: the line to the parent, out of reach of envs that print."""
    line = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(line, "w")
