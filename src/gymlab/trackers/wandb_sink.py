"""Weights & Biases, online or offline, driven through a program of its own (`wandb_program`)."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError
from gymlab.runs.paths import RunPaths
from gymlab.runs.redact import redact
from gymlab.trackers.sink import RunInfo

log = logging.getLogger(__name__)
INIT_SECONDS = 5.0  # for W&B to answer
START_SECONDS = 60.0  # for the program to be loaded and ready, on a busy machine
ANSWER_SECONDS = 60.0
MODEL_FILES = ("policy.safetensors", "checkpoint.json")
# The machine, its user, what is installed and what is printed stay here.
PRIVATE = {
    "silent": True,
    "console": "off",
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "host": "",
    "username": "",
    "program": "",
    "x_save_requirements": False,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
}
QUICK = {"symlink": False, "x_disable_viewer": True, "x_transaction_log_flush_interval": 1.0}


class WandbSink:
    """A W&B run that follows one run of ours through all its sessions.

    Where W&B cannot be reached at the start, the session is written offline, to be sent by `wandb sync`; an outage
    later on is W&B's own to bridge.
    """

    name = "W&B"

    def __init__(self, paths: RunPaths, *, project: str, wandb_id: str, mode: str) -> None:
        self._paths = paths
        self._project = project
        self._id = wandb_id
        self._mode = mode
        self._process: subprocess.Popen[str] | None = None
        self._folder = ""
        self._abandoned = False

    def describe(self) -> str:
        return f"wandb project {self._project}" + (" (offline)" if self._mode == "offline" else "")

    def start(self, info: RunInfo, at: Clock) -> int:
        """W&B cannot forget rows: what it holds beyond `at` stays, and is not sent again."""
        del at
        try:
            told = self._started(info)
        except RunError as error:
            if self._mode == "offline" or self._abandoned:
                raise
            self._mode = "offline"
            told = self._started(info)
            log.warning("W&B: %s; written offline: send it with `wandb sync %s`", error, told["folder"])
        self._folder = told["folder"]
        if told["url"]:
            log.info("W&B: %s", told["url"])
        self._info = info
        return int(told["held"])

    def row(self, clock: Clock, metrics: Mapping[str, float]) -> None:
        self._send("row", clock=clock._asdict(), metrics=dict(metrics))

    def media(self, path: Path, step: int) -> None:
        self._send("media", path=str(path.resolve()), name=media_name(path), step=step)

    def artifact(self, path: Path, aliases: tuple[str, ...]) -> None:
        """From a copy in the run's W&B folder: checkpoints are pruned, and offline it is sent much later."""
        copy = self._paths.root / "wandb" / "models" / path.name
        copy.mkdir(parents=True, exist_ok=True)
        sources = [*(path / name for name in MODEL_FILES), self._paths.recipe]
        with contextlib.suppress(FileNotFoundError):  # pruned under our hands: a better one is coming
            files = [str(Path(shutil.copyfile(source, copy / source.name)).resolve()) for source in sources]
            self._send("artifact", name=f"{self._info.run_id}-policy", files=files, aliases=list(aliases))

    def flush(self) -> None:
        self._send("flush")
        for note in self._answer(ANSWER_SECONDS)["notes"]:
            log.warning("W&B: %s", redact(note))

    def finish(self, seconds: float, *, failed: bool) -> None:
        """What W&B could not send in time stays in its local file."""
        deadline = time.monotonic() + seconds
        try:
            self._send("finish", seconds=seconds, exit_code=int(failed))
            self._answer(seconds)
        except RunError as error:
            raise RunError(f"{error}; send the rest with `wandb sync {self._folder}`") from error
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                if self._process is not None:
                    self._process.wait(max(0.0, deadline - time.monotonic()))
            self._kill()

    def abandon(self) -> None:
        self._abandoned = True
        self._kill()

    def _kill(self) -> None:
        process = self._process
        self._process = None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()

    def _started(self, info: RunInfo) -> dict[str, Any]:
        self._kill()
        self._launch()
        self._send(
            "start",
            folder=str(self._paths.root.resolve()),
            settings={**PRIVATE, **QUICK, "mode": self._mode, "init_timeout": INIT_SECONDS},
            project=self._project,
            id=self._id,
            name=info.display_name,
            group=info.group,
            tags=list(info.tags),
            notes=info.note,
            job_type="train",
            config={"recipe": info.recipe, **info.config},
        )
        try:
            return self._answer(START_SECONDS)
        except RunError:
            self._kill()
            raise

    def _launch(self) -> None:
        folder = self._paths.root.resolve() / "wandb"
        folder.mkdir(exist_ok=True)
        inherited = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
        # Everything W&B writes stays in the run's folder, and it reports nothing about itself.
        own = {
            "WANDB_DATA_DIR": str(folder),
            "WANDB_CACHE_DIR": str(folder / "cache"),
            "WANDB_ERROR_REPORTING": "false",
        }
        self._process = subprocess.Popen(
            # -P: a file called wandb.py in the current folder, or beside the program, is not W&B.
            [sys.executable, "-P", str(Path(__file__).with_name("wandb_program.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**inherited, **own},
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is for the run: W&B is told by the run
        )
        if self._abandoned:  # meanwhile
            self._kill()
            raise RunError("time was up")
        assert self._process.stdout is not None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(self._process.stdout, self._answers), daemon=True).start()

    def _send(self, what: str, **fields: Any) -> None:
        process = self._process
        try:
            if process is None or process.stdin is None:
                raise BrokenPipeError
            process.stdin.write(json.dumps({"do": what, **fields}) + "\n")
            process.stdin.flush()
        except (OSError, ValueError):
            self._answer(1.0)  # which says why, if anything was said
            raise RunError("its program has ended") from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise RunError(f"no answer in {seconds:.3g} s") from None
        if not line:
            raise RunError("its program has ended")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise RunError(redact(told["error"]))
        return told


def _listen(pipe: IO[str], answers: queue.SimpleQueue[str]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in pipe:
            answers.put(line)
    answers.put("")


def media_name(path: Path) -> str:
    """`50000-best.mp4` as `video/best`: clips of a kind share a panel, the step is on its axis."""
    return f"video/{re.sub(r'^[0-9]+[-_]?|[-_]?[0-9]+$', '', path.stem) or 'clip'}"
