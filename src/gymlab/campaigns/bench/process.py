"""One process measured: when each of its lines came, how long it took, and the most memory it held."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gymlab.core.errors import GymlabError


class Followed(NamedTuple):
    lines: list[tuple[float, str]]  # the second at which it came, and what it said
    seconds: float
    peak_mb: float


def follow(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> Followed:
    """Run a command to its end. What went wrong with it is shown."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1
        )
        assert process.stdout is not None
        try:
            with process.stdout as said:
                lines = [(time.perf_counter() - began, line) for line in said]
            peak = _peak_mb(process)
        except BaseException:
            process.kill()
            process.wait()
            raise
        seconds = time.perf_counter() - began
        if process.returncode:
            errors.seek(0)
            told = errors.read()[-2000:].strip()
            raise GymlabError(f"{' '.join(command)} ended with {process.returncode}:\n{told}")
    return Followed(lines, seconds, peak)


def _peak_mb(process: subprocess.Popen[str]) -> float:
    """Wait for a process; the most memory it held, not a number where the system does not say."""
    if not hasattr(os, "wait4"):
        process.wait()
        return float("nan")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)
