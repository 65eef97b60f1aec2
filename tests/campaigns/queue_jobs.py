"""Small jobs for the queue, and patience."""

import os
import signal
import sys
import time
from pathlib import Path

from gymlab.campaigns.queue.jobs import JobRequest
from gymlab.campaigns.queue.store import Queue

# Writes when it begins and ends, and ends when it is allowed to.
PROGRAM = """
import pathlib, sys, time
log, name, gate = sys.argv[1:4]
def tell(word):
    with open(log, "a") as file:
        file.write(word + " " + name + "\\n")
tell("begin")
while gate and not pathlib.Path(gate).exists():
    time.sleep(0.02)
tell("end")
"""


def small_job(folder: Path, name: str, gate: str = "", **more) -> JobRequest:
    command = (sys.executable, "-S", "-c", PROGRAM, str(folder / "log"), name, str(folder / gate) if gate else "")
    return JobRequest(name, command, str(folder), program=True, **{"retries": 0, **more})


def logged(folder: Path) -> list[str]:
    log = folder / "log"
    return log.read_text().splitlines() if log.exists() else []


def until(holds, seconds=60.0, what="what is waited for"):
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.05)
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def states(queue: Queue) -> dict[str, str]:
    return {job.title: job.state for job in queue.jobs()}


def processes_of(root: Path) -> list[str]:
    """Command lines of all processes that work on this runs folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"GYMLAB_RUNS={root}".encode() in environ and line:
            found.append(line)
    return found
