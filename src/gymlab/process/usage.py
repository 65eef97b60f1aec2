"""Memory and CPU time of this process and its descendants, from /proc; empty on systems without it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Usage(NamedTuple):
    """A sample, by process id."""

    at: float
    memory: dict[int, int]  # bytes
    cpu: dict[int, float]  # seconds


def usage_now(root: Path = _PROC) -> Usage:
    """Sample this process and its descendants; empty on systems without /proc."""
    memory: dict[int, int] = {}
    cpu: dict[int, float] = {}
    for pid in _process_tree(root):
        with suppress(OSError, ValueError, IndexError):  # the process may have ended meanwhile
            pages = int((root / str(pid) / "statm").read_text().split()[1])
            # The name before may contain anything, brackets too.
            fields = (root / str(pid) / "stat").read_text().rpartition(")")[2].split()
            memory[pid] = pages * os.sysconf("SC_PAGE_SIZE")
            cpu[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Usage(time.monotonic(), memory, cpu)


def usage_metrics(before: Usage, now: Usage) -> dict[str, float]:
    """Resident memory now, and mean busy cores since `before`."""
    if not now.memory:
        return {}
    spent = sum(seconds - before.cpu[pid] for pid, seconds in now.cpu.items() if pid in before.cpu)
    return {"sys/rss": float(sum(now.memory.values())), "sys/cpu": max(0.0, spent) / max(now.at - before.at, 1e-9)}


def _process_tree(root: Path) -> list[int]:
    """This process and its descendants that were started by main threads."""
    found = []
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        with suppress(OSError, ValueError):
            waiting += map(int, (root / str(pid) / "task" / str(pid) / "children").read_text().split())
    return found
