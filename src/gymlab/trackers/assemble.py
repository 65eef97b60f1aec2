"""Chooses the trackers of a run from the command line and its record, and builds their sinks and followers."""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError, suggestion
from gymlab.runs import files
from gymlab.runs.checkpoints import read_index
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_record
from gymlab.runs.store import RunStore
from gymlab.trackers.feature import Tracker
from gymlab.trackers.follow import Follower
from gymlab.trackers.sink import Sink

log = logging.getLogger(__name__)
DEFAULT_PROJECT = "gymlab"
MODES = ("online", "offline", "disabled")
_NAME = re.compile(r"[^/\\#?%:*\[\]\s]{1,128}")  # of a project or an id at W&B


@dataclass(frozen=True)
class Trackers:
    """The requested trackers; none by default."""

    wandb: str | None = None  # the project
    tensorboard: bool = False


def choose_trackers(wandb: str | None, tensorboard: bool) -> Trackers:
    """From the command line: `wandb` is None without `--wandb`, "" without a project. UserError if not installed."""
    if tensorboard and find_spec("tensorboard") is None:
        raise UserError("--tensorboard needs TensorBoard: pip install 'gymlab[tensorboard]'")
    if wandb is None or wandb_mode() == "disabled":
        return Trackers(tensorboard=tensorboard)
    if find_spec("wandb") is None:
        raise UserError("--wandb needs Weights & Biases: pip install 'gymlab[wandb]'")
    project = wandb or os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT
    if not _NAME.fullmatch(project):
        raise UserError(f"--wandb={project[:80]!r} is no name for a W&B project: letters, digits, '.', '_' and '-'")
    return Trackers(project, tensorboard)


def wandb_mode() -> str:
    """`$WANDB_MODE`: online (the default), offline or disabled."""
    mode = os.environ.get("WANDB_MODE") or "online"
    if mode not in MODES:
        raise UserError(f"$WANDB_MODE={mode!r} is no mode: {suggestion(mode, MODES)}")
    return mode


def make_tracker(trackers: Trackers, paths: RunPaths) -> Tracker:
    """The feature that keeps a run's copies up to date. A resumed run keeps the trackers it had."""
    record = read_record(_record_path(paths))
    sinks: list[Sink] = []
    wandb = _wandb_record(trackers, record, paths)
    if trackers.tensorboard or record.get("tensorboard") is True:
        from gymlab.trackers.tensorboard_sink import TensorBoardSink

        sinks.append(TensorBoardSink(paths.root / "tensorboard"))
    if wandb is not None and wandb_mode() != "disabled":
        from gymlab.trackers.wandb_sink import WandbSink

        sinks.append(WandbSink(paths, project=wandb["project"], wandb_id=wandb["id"], mode=wandb_mode()))
    record_now = {"tensorboard": trackers.tensorboard or record.get("tensorboard") is True, "wandb": wandb}
    return Tracker(
        [Follower(sink, paths) for sink in sinks], _record_writer(paths, record_now) if sinks else lambda: None
    )


def copy_run(trackers: Trackers, paths: RunPaths, seconds: float = 600.0) -> None:
    """Send an ended run to trackers, or the part they missed."""
    with RunStore.open(paths), MetricsReader(paths.metrics) as reader:
        newest = reader.last()
        best = read_index(paths)["best"]
        if newest:
            at = Clock(*(newest[name] for name in Clock._fields))  # type: ignore[arg-type]
            make_tracker(trackers, paths).copy(at, paths.checkpoints / best if best else None, seconds)


def _wandb_record(trackers: Trackers, record: dict[str, Any], paths: RunPaths) -> dict[str, str] | None:
    """Project and id. The id at W&B is stored, and unique even if another run has the same name.

    In an agent of a W&B sweep the id is the one that W&B assigned.
    """
    stored = record.get("wandb")
    if isinstance(stored, dict) and all(_NAME.fullmatch(str(stored.get(key))) for key in ("project", "id")):
        return {key: stored[key] for key in ("project", "id")}
    if trackers.wandb is None:
        return None
    assigned = os.environ.get("WANDB_RUN_ID", "") if os.environ.get("WANDB_SWEEP_ID") else ""
    chosen = assigned if _NAME.fullmatch(assigned) else f"{paths.run_id}-{secrets.token_hex(4)}"
    return {"project": trackers.wandb, "id": chosen}


def _record_writer(paths: RunPaths, record: dict[str, Any]) -> Callable[[], None]:
    """A function that stores the record, called when the run starts: a run that never starts is not resumed."""

    def write() -> None:
        try:
            files.write_json(_record_path(paths), record)
        except OSError as error:
            log.warning("trackers.json could not be written (%s): a resumed run will not know its trackers", error)

    return write


def _record_path(paths: RunPaths) -> Path:
    return paths.root / "trackers.json"
