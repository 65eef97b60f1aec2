"""Which trackers a run has, and the one place where they are put together."""

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
    """What was asked for. Nothing is the default."""

    wandb: str | None = None  # the project
    tensorboard: bool = False


def choose_trackers(wandb: str | None, tensorboard: bool) -> Trackers:
    """From the command line: `wandb` is None without `--wandb`, "" without a project. Says what is missing."""
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
    """The feature that keeps a run's copies up to date. A run that goes on keeps the trackers it had."""
    record = read_record(_record_path(paths))
    sinks: list[Sink] = []
    wandb = _wandb_record(trackers, record, paths)
    if trackers.tensorboard or record.get("tensorboard") is True:
        from gymlab.trackers.tensorboard_sink import TensorBoardSink

        sinks.append(TensorBoardSink(paths.root / "tensorboard"))
    if wandb is not None and wandb_mode() != "disabled":
        from gymlab.trackers.wandb_sink import WandbSink

        sinks.append(WandbSink(paths, project=wandb["project"], wandb_id=wandb["id"], mode=wandb_mode()))
    now = {"tensorboard": trackers.tensorboard or record.get("tensorboard") is True, "wandb": wandb}
    return Tracker([Follower(sink, paths) for sink in sinks], _keeper(paths, now) if sinks else lambda: None)


def copy_run(trackers: Trackers, paths: RunPaths, seconds: float = 600.0) -> None:
    """Send a run that is over to trackers, or what they missed of it."""
    with RunStore.open(paths), MetricsReader(paths.metrics) as reader:
        newest = reader.last()
        best = read_index(paths)["best"]
        if newest:
            at = Clock(*(newest[name] for name in Clock._fields))  # type: ignore[arg-type]
            make_tracker(trackers, paths).copy(at, paths.checkpoints / best if best else None, seconds)


def _wandb_record(trackers: Trackers, record: dict[str, Any], paths: RunPaths) -> dict[str, str] | None:
    """Project and id. A run's id at W&B is its own for good, and not taken by another run of the same name.

    An agent of a W&B sweep has named the run already, and looks for it under that name.
    """
    stored = record.get("wandb")
    if isinstance(stored, dict) and all(_NAME.fullmatch(str(stored.get(key))) for key in ("project", "id")):
        return {key: stored[key] for key in ("project", "id")}
    if trackers.wandb is None:
        return None
    given = os.environ.get("WANDB_RUN_ID", "") if os.environ.get("WANDB_SWEEP_ID") else ""
    chosen = given if _NAME.fullmatch(given) else f"{paths.run_id}-{secrets.token_hex(4)}"
    return {"project": trackers.wandb, "id": chosen}


def _keeper(paths: RunPaths, record: dict[str, Any]) -> Callable[[], None]:
    """Kept only once the run has started: before, there is nothing to go on with."""

    def keep() -> None:
        try:
            files.write_json(_record_path(paths), record)
        except OSError as error:
            log.warning("trackers.json could not be written (%s): a resumed run will not know its trackers", error)

    return keep


def _record_path(paths: RunPaths) -> Path:
    return paths.root / "trackers.json"
