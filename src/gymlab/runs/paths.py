"""Paths of a run's files, and valid run ids."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from gymlab.core.errors import RunError, UserError
from gymlab.runs import files

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
REGISTRY = "registry.json"
REGISTRY_LOCK = ".registry.lock"
_WINDOWS_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}


@dataclass(frozen=True)
class RunPaths:
    """The files of one run. `root` is the run's own folder."""

    root: Path

    @property
    def run_id(self) -> str:
        return self.root.name

    @property
    def manifest(self) -> Path:
        return self.root / "manifest.json"

    @property
    def recipe(self) -> Path:
        return self.root / "recipe.yaml"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.db"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def checkpoint_index(self) -> Path:
        return self.checkpoints / "index.json"

    @property
    def videos(self) -> Path:
        return self.root / "videos"

    @property
    def pending_videos(self) -> Path:
        """Policies that are still to be filmed."""
        return self.videos / "pending"

    @property
    def recorder_lock(self) -> Path:
        """Locked by the process that makes the films of this run."""
        return self.videos / ".recorder.lock"

    @property
    def rollouts(self) -> Path:
        return self.root / "rollouts"

    @property
    def log(self) -> Path:
        return self.root / "run.log"

    @property
    def alerts(self) -> Path:
        return self.root / "alerts.json"

    @property
    def report(self) -> Path:
        return self.root / "report.md"

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def tags(self) -> Path:
        return self.root / "tags.json"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def exists(self) -> bool:
        """Whether this is a run's folder: foreign folders among the runs are ignored."""
        return self.manifest.is_file() and not self.root.is_symlink()

    def inside(self, path: Path) -> Path:
        """`path` itself, or RunError where links lead out of the run."""
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise RunError(f"{path} leads out of the run folder {self.root}: not followed")
        return path


def runs_folder(folder: str | Path | None = None) -> Path:
    """The folder of all runs: `folder`, else $GYMLAB_RUNS, else ./runs."""
    return Path(folder or os.environ.get("GYMLAB_RUNS") or "runs")


def prepare_runs_folder(runs_root: Path) -> None:
    """Create the folder of all runs with a .gitignore."""
    try:
        runs_root.mkdir(parents=True, exist_ok=True)
        ignore = runs_root / ".gitignore"
        if not ignore.exists():
            files.write_text(ignore, "*\n")
    except OSError as error:
        raise UserError(f"runs folder '{runs_root}' cannot be written ({error.strerror}): set $GYMLAB_RUNS") from error


def valid_run_id(run_id: str) -> bool:
    """Whether a name is a valid run id, on every operating system."""
    # Windows drops a dot at the end, and has devices whose names are taken with any suffix.
    device = run_id.partition(".")[0].lower() in _WINDOWS_DEVICES
    return RUN_ID.fullmatch(run_id) is not None and not run_id.endswith(".") and not device


def run_paths(runs_root: Path, run_id: str) -> RunPaths:
    """The paths of a run by its id. Ids that are not plain names are refused: they could lead out of `runs_root`."""
    if not valid_run_id(run_id):
        raise UserError(
            f"run id {run_id[:80]!r} is not valid: letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit, not ending with a dot, at most 64, and no reserved name"
        )
    paths = RunPaths(runs_root / run_id)
    if paths.root.is_symlink():
        raise UserError(f"run '{run_id}' is a link: not followed")
    return paths


def stored_name(runs_root: Path, run_id: str) -> str:
    """A run id in the case of its folder: macOS and Windows open it in any case, so it is found in any here too."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(runs_root)
    alike = [name for name in names if name.lower() == run_id.lower()]
    return alike[0] if len(alike) == 1 else run_id


def new_run_id(name: str) -> str:
    """`CartPole-v1:ppo` as `cartpole-v1-ppo-20261115-054200-ab12`: sortable by time (UTC) for one name."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-") or "run"
    return f"{slug}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
