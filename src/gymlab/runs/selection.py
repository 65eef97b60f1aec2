"""Selecting a run or a checkpoint by what a user types.

A run is named by its id, a unique beginning of it, the path of its folder, `@last` (the newest), `@best:ENV` (the
highest score on ENV) or `@best` (the same, on the env of the newest run). A checkpoint by RUN/best, RUN/last,
RUN/50000, or the path of its folder.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from gymlab.core.errors import UserError, suggestion
from gymlab.runs import checkpoints
from gymlab.runs.manifest import require_format
from gymlab.runs.paths import RunPaths, run_paths, stored_name, valid_run_id
from gymlab.runs.records import RegistryEntry
from gymlab.runs.registry import Registry

_LISTED = 8


def select_run(text: str, runs_root: str | Path, *, by_path: bool = True, any_format: bool = False) -> RunPaths:
    """The run a user names; UserError with the nearest id if there is none, or another version wrote it.

    `by_path=False` is for servers: a client then cannot name a folder outside `runs_root`.
    `any_format=True` is for removing a run.
    """
    paths = _find_run(text, runs_root, by_path=by_path)
    if not any_format:
        require_format(paths)
    return paths


def _find_run(text: str, runs_root: str | Path, *, by_path: bool) -> RunPaths:
    root = Path(runs_root)
    if text.startswith("@"):
        return run_paths(root, _by_rank(text, Registry(root).runs(), root))
    if valid_run_id(text):
        if (exact := run_paths(root, stored_name(root, text))).exists:
            return exact
        ids = [entry["id"] for entry in Registry(root).runs()]
        matches = [run_id for run_id in ids if run_id.startswith(text)]
        if len(matches) == 1:
            return run_paths(root, matches[0])
        if matches:
            shown = ", ".join(matches[:_LISTED]) + (" ..." if len(matches) > _LISTED else "")
            raise UserError(f"'{text}' is the beginning of {len(matches)} runs: {shown}")
    if by_path and (found := _by_path(text)) is not None:
        return found
    raise UserError(_unknown(text, root))


def select_checkpoint(
    text: str, runs_root: str | Path, default: str = "best", *, by_path: bool = True
) -> tuple[RunPaths, str]:
    """The run and which of its checkpoints: `best`, `last` or its number. A bare run means `default`.

    Checkpoints are numbered by the clock of the run's first budget.
    """
    run, which = split_last(text)
    which = which.removeprefix("@")
    if run and (which in ("best", "last") or re.fullmatch(r"[0-9]{1,19}", which)):
        if by_path and Path(run).name == "checkpoints" and (owner := _by_path(str(Path(run).parent))) is not None:
            return owner, which
        return select_run(run, runs_root, by_path=by_path), which
    try:
        return select_run(text, runs_root, by_path=by_path), default
    except UserError:
        if valid_run_id(run):  # the run may be right and only the checkpoint misspelt
            paths = select_run(run, runs_root, by_path=False)
            hint = suggestion(which[:80], ["best", "last"])
            raise UserError(f"run '{paths.run_id}' has no checkpoint {which[:80]!r}: {hint}") from None
        raise


def split_last(text: str, path: ModuleType = os.path) -> tuple[str, str]:
    """`RUN/best` as (`RUN`, `best`), by the separators of the operating system: `path` is its `os.path`."""
    run, which = path.split(text.rstrip(path.sep + (path.altsep or "")))
    return str(run), str(which)


def select_checkpoints(paths: RunPaths, text: str) -> list[str]:
    """Several checkpoints of a run, by commas: first, best, last, all or their numbers; each once.

    `first` is the earliest that was not pruned.
    """
    known = [str(step) for step in reversed(checkpoints.steps(paths))]
    if not known:
        raise UserError(f"run '{paths.run_id}' has no checkpoint yet")
    best = checkpoints.read_index(paths)["best"]
    named = {"first": known[:1], "last": known[-1:], "best": known[-1:] if best is None else [best], "all": known}
    found: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if part not in named and part not in known:
            hint = suggestion(part[:80], [*named, *known])
            raise UserError(f"run '{paths.run_id}' has no checkpoint {part[:80]!r}: {hint}")
        found += named.get(part, [part])
    return list(dict.fromkeys(found))


def newest_run(
    runs_root: Path, *statuses: str, having: Callable[[RunPaths], object] = lambda _: True
) -> RunPaths | None:
    """The newest run with one of these statuses (any, if none is given) for which `having` is true."""
    for entry in Registry(runs_root).runs():
        if not statuses or entry["status"] in statuses:
            paths = RunPaths(runs_root / entry["id"])
            if having(paths):
                return paths
    return None


def _by_rank(text: str, runs: list[RegistryEntry], root: Path) -> str:
    rank, _, env = text.partition(":")
    if rank not in ("@last", "@best") or (env and rank == "@last"):
        raise UserError(f"unknown run {text[:80]!r}: {suggestion(text[:80], ['@last', '@best', '@best:ENV'])}")
    if not runs:
        raise UserError(f"{text[:80]!r}: there are no runs in '{root}'")
    if rank == "@last":
        return str(runs[0]["id"])
    env_id = env or runs[0]["env"]
    scored = [run for run in runs if run.get("env") == env_id and _score(run) is not None]
    if not scored:
        known = {str(run["env"]) for run in runs if _score(run) is not None}
        hint = suggestion(env, known) if env and known else "none has a score yet"
        raise UserError(f"{text[:80]!r}: no scored run of '{str(env_id)[:80]}' in '{root}': {hint}")
    return str(max(scored, key=lambda run: _score(run) or 0.0)["id"])  # of equals the newest, which comes first


def _score(run: RegistryEntry) -> float | None:
    value = run.get("score")
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _by_path(text: str) -> RunPaths | None:
    if not text or "\0" in text or len(text) > 4096:
        return None
    try:
        folder = Path(os.path.expanduser(text)).resolve()
        paths = RunPaths(folder)
        return paths if paths.exists else None
    except (OSError, RuntimeError):
        return None


def _unknown(text: str, root: Path) -> str:
    ids = [entry["id"] for entry in Registry(root).runs()]
    hint = suggestion(text[:80], [*ids, "@last"]) if ids else f"there are no runs in '{root}'"
    return f"unknown run {text[:80]!r}: {hint}"
