"""Child process that talks to W&B, so that its hooks, threads and waits stay out of the training process.

Reads commands as JSON lines and answers `start`, `flush` and `finish` with one line each. When stdin ends without
`finish`, the parent has died: it closes the W&B run as failed. It imports nothing of gymlab.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from gymlab.core.types import Json

ORPHANED_SECONDS = 5.0
PATIENCE_SECONDS = 2 * ORPHANED_SECONDS  # for the process of a killed session, which may still be closing
VIDEOS = (".mp4", ".webm", ".gif", ".ogg")


class Program:
    """One W&B run. Its rows are numbered in the order of sending; the axis of the charts is `vec_steps`."""

    def __init__(self) -> None:
        self._run: Any = None
        self._next = 0  # number of the next row
        self._steps = 0
        self._notes: list[str] = []

    def start(self, *, folder: str, settings: dict[str, Any], **init: Any) -> dict[str, Any]:
        import wandb

        self._lock = wait_for_lock(Path(folder) / "wandb" / "lock")
        known = type(wandb.Settings()).model_fields  # private ones come and go between versions
        chosen = wandb.Settings(**{name: value for name, value in settings.items() if name in known})
        if settings["mode"] == "offline":  # asked first, for the new session has a file too
            self._next, self._steps = sent_before(Path(folder), init["id"])
        self._run = run = wandb.init(dir=folder, settings=chosen, resume="allow", **init)
        run.define_metric("vec_steps")
        run.define_metric("*", step_metric="vec_steps")
        if run.resumed and settings["mode"] != "offline":
            self._next = run.starting_step
            self._steps = int(run.summary.get("vec_steps", 0))
        return {"held": self._steps, "folder": str(Path(run.dir).parent), "url": run.url}

    def row(self, clock: dict[str, float], metrics: dict[str, float]) -> None:
        late = clock["vec_steps"] <= self._steps
        self._log({"vec_steps": clock["vec_steps"]} if late else clock, metrics)

    def media(self, path: str, name: str, step: int) -> None:
        import wandb

        clip = wandb.Video(path) if path.endswith(VIDEOS) else wandb.Image(path)
        self._log({"vec_steps": step}, {name: clip})

    def artifact(self, name: str, files: list[str], aliases: list[str]) -> None:
        import wandb

        artifact = wandb.Artifact(name, type="model")
        for file in files:
            artifact.add_file(file, name=Path(file).name, policy="immutable", skip_cache=True)
        self._run.log_artifact(artifact, aliases=aliases)

    def flush(self) -> dict[str, Any]:
        notes = self._notes
        self._notes = []
        return {"notes": notes}

    def finish(self, seconds: float, exit_code: int) -> dict[str, Any]:
        watchdog = threading.Timer(seconds, os._exit, (1,))
        watchdog.daemon = True
        watchdog.start()
        if self._run is not None:
            self._run.finish(exit_code=exit_code)
        return {}

    def note(self, error: Exception) -> None:
        self._notes.append(error_line(error))

    def _log(self, axis: dict[str, float], values: dict[str, Any]) -> None:
        self._run.log({**axis, **values}, step=self._next, commit=True)
        self._next += 1
        if axis["vec_steps"] < self._steps:  # a late value must not move the run's step back
            self._run.summary["vec_steps"] = self._steps
        self._steps = max(self._steps, int(axis["vec_steps"]))


def wait_for_lock(path: Path) -> IO[str] | None:
    """Take the lock until this process ends; after a timeout continue without it: rows might then be sent twice."""
    if sys.platform == "win32":
        return None
    import fcntl

    file = path.open("w", encoding="utf-8")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            time.sleep(0.05)
    return file


def error_line(error: Exception) -> str:
    """An error in one line."""
    return " ".join([type(error).__name__, *str(error).splitlines()[:1]])


def sent_before(folder: Path, run_id: str) -> tuple[int, int]:
    """The next row number and the last step in the local files of earlier sessions."""
    paths = folder.glob(f"wandb/*run-*-{run_id}/run-{run_id}.wandb")
    for path in sorted(paths, key=lambda path: path.parent.name.removeprefix("offline-"), reverse=True):
        items = history(path) if b"_timestamp" in path.read_bytes() else []  # a quick look first
        rows = [int(item["vec_steps"]) for item in items if "updates" in item]
        if rows:
            return 1 + max(int(item["_step"]) for item in items), max(rows)
    return 0, 0


def history(path: Path) -> list[dict[str, Any]]:
    """The rows of a local W&B file, as W&B itself reads it; also of one that was cut short."""
    command = [sys.executable, "-P", "-m", "wandb", "leet", "inspect", "--json", str(path)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    records = [json.loads(line) for line in result.stdout.splitlines() if '"type":"history"' in line]
    return [record["history"]["item"] for record in records]


def serve(commands: IO[str], answers: IO[str]) -> int:
    """Carry out commands until `finish`; returns the exit code."""
    program = Program()

    def answer(**fields: Json) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    for line in commands:
        command = json.loads(line)
        what = command.pop("do")
        try:
            result = getattr(program, what)(**command)
        except Exception as error:  # any error of W&B is reported to the parent
            if what in ("media", "artifact"):  # not fatal: rows matter more
                program.note(error)
                continue
            answer(error=error_line(error))
            os._exit(1)  # no waiting for threads of W&B's
        if result is not None:
            answer(**result)
        if what == "finish":
            return 0
    program.finish(ORPHANED_SECONDS, exit_code=1)
    return 1


if __name__ == "__main__":
    # W&B may print to stdout: send that to stderr, so that it is not read as an answer.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    code = serve(sys.stdin, channel)
    channel.close()
    os._exit(code)
