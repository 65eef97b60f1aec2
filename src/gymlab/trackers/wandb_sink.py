"""Weights & Biases, online or offline, through a child process (`wandb_program`)."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import re
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError
from gymlab.process.child import Child
from gymlab.runs.paths import RunPaths
from gymlab.runs.redact import redact
from gymlab.trackers.sink import RunInfo

log = logging.getLogger(__name__)
INIT_SECONDS = 5.0  # for W&B to answer
START_SECONDS = 60.0  # for the program to be loaded and ready, on a busy machine
ANSWER_SECONDS = 60.0
MODEL_FILES = ("policy.safetensors", "checkpoint.json")
# Nothing about the machine, its user, installed packages and printed output is sent.
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
    """One W&B run for all sessions of one run.

    If W&B cannot be reached at the start, the session is written offline, to be sent by `wandb sync`; later outages
    are bridged by W&B itself.
    """

    name = "W&B"

    def __init__(self, paths: RunPaths, *, project: str, wandb_id: str, mode: str) -> None:
        self._paths = paths
        self._project = project
        self._id = wandb_id
        self._mode = mode
        self._child: Child | None = None
        self._replies: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._folder = ""
        self._abandoned = False

    def describe(self) -> str:
        return f"wandb project {self._project}" + (" (offline)" if self._mode == "offline" else "")

    def start(self, info: RunInfo, at: Clock) -> int:
        """W&B cannot delete rows: those it holds after `at` stay, and are not sent again."""
        del at
        try:
            reply = self._start_session(info)
        except RunError as error:
            if self._mode == "offline" or self._abandoned:
                raise
            self._mode = "offline"
            reply = self._start_session(info)
            log.warning("W&B: %s; written offline: send it with `wandb sync %s`", error, reply["folder"])
        self._folder = reply["folder"]
        if reply["url"]:
            log.info("W&B: %s", reply["url"])
        self._info = info
        return int(reply["held"])

    def row(self, clock: Clock, metrics: Mapping[str, float]) -> None:
        self._send("row", clock=clock._asdict(), metrics=dict(metrics))

    def media(self, path: Path, step: int) -> None:
        self._send("media", path=str(path.resolve()), name=media_name(path), step=step)

    def artifact(self, path: Path, aliases: tuple[str, ...]) -> None:
        """Sent from a copy in the run's W&B folder: checkpoints are pruned, and offline runs are sent much later."""
        copy = self._paths.root / "wandb" / "models" / path.name
        copy.mkdir(parents=True, exist_ok=True)
        sources = [*(path / name for name in MODEL_FILES), self._paths.recipe]
        with contextlib.suppress(FileNotFoundError):  # pruned meanwhile: a better one follows
            files = [str(Path(shutil.copyfile(source, copy / source.name)).resolve()) for source in sources]
            self._send("artifact", name=f"{self._info.run_id}-policy", files=files, aliases=list(aliases))

    def flush(self) -> None:
        self._send("flush")
        for note in self._reply(ANSWER_SECONDS)["notes"]:
            log.warning("W&B: %s", redact(note))

    def finish(self, seconds: float, *, failed: bool) -> None:
        """Rows that W&B could not send in time stay in its local file."""
        deadline = time.monotonic() + seconds
        try:
            self._send("finish", seconds=seconds, exit_code=int(failed))
            self._reply(seconds)
        except RunError as error:
            raise RunError(f"{error}; send the rest with `wandb sync {self._folder}`") from error
        finally:
            if self._child is not None:
                self._child.wait(max(0.0, deadline - time.monotonic()))
            self._kill()

    def abandon(self) -> None:
        self._abandoned = True
        self._kill()

    def _kill(self) -> None:
        child = self._child
        self._child = None
        if child is not None:
            child.end()

    def _start_session(self, info: RunInfo) -> dict[str, Any]:
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
            return self._reply(START_SECONDS)
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
        # -P: a file called wandb.py in the current folder, or beside the program, is not W&B.
        command = [sys.executable, "-P", str(Path(__file__).with_name("wandb_program.py"))]
        # A session of its own: Ctrl-C is for the run, which then finishes the W&B run.
        child = Child(command, stdin="pipe", stdout="pipe", stderr="null", environ={**inherited, **own}, session="own")
        self._child = child
        self._replies = queue.SimpleQueue()
        child.listen(self._replies.put)
        if self._abandoned:  # by another thread, while the child was started
            self._kill()
            raise RunError("time was up")

    def _send(self, command: str, **fields: Any) -> None:
        child = self._child
        if child is None or not child.send(json.dumps({"do": command, **fields})):
            self._reply(1.0)  # raises the error that the program reported, if any
            raise RunError("its program has ended")

    def _reply(self, seconds: float) -> dict[str, Any]:
        try:
            line = self._replies.get(timeout=seconds)
        except queue.Empty:
            raise RunError(f"no answer in {seconds:.3g} s") from None
        if line is None:
            raise RunError("its program has ended")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise RunError(redact(reply["error"]))
        return reply


def media_name(path: Path) -> str:
    """`50000-best.mp4` as `video/best`: clips of a kind share a panel, the step is on its axis."""
    return f"video/{re.sub(r'^[0-9]+[-_]?|[-_]?[0-9]+$', '', path.stem) or 'clip'}"
