"""The checkpoints of a run: saving, finding, verifying, loading and pruning them. The border for everyone else.

A folder appears as checkpoints/<env_steps> only when it is whole and durable. `last` is always the newest, `best` the
newest that was saved as best.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from gymlab.core.errors import GymlabError, RunError, UserError, suggestion
from gymlab.runs import checkpoint_index, files, platform
from gymlab.runs.checkpoint_folder import (
    POLICY,
    STATE,
    Arrays,
    Damaged,
    fill,
    read_sidecar,
    read_tensors,
    write_kinds,
)
from gymlab.runs.checkpoint_index import ASIDE, NUMBERED
from gymlab.runs.failpoints import failpoint
from gymlab.runs.paths import RunPaths

_DOOMED = ".del-"
_TEMP = ".tmp-"
_RESCANS = 20  # a reader of a live run may meet a folder that is just being replaced or pruned

Kind = Literal["periodic", "asked", "best", "last"]  # asked: an evaluation of it was asked for


class Loaded(NamedTuple):
    """A verified checkpoint."""

    path: Path
    policy: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    info: dict[str, Any]
    notes: list[str]  # damaged checkpoints that were passed over
    env_steps: int


def save_checkpoint(
    paths: RunPaths, *, env_steps: int, policy: Arrays, state: Arrays, info: dict[str, Any], kinds: set[Kind], keep: int
) -> Path:
    """Save a checkpoint, then prune to `keep` periodic ones beside best and last.

    Killed at any instruction, or out of disk, it leaves the previous checkpoints as they were.
    """
    folder = paths.checkpoints
    try:
        paths.inside(folder).mkdir(exist_ok=True)
        failpoint("save_begin")
        known = checkpoint_index.kinds_of(paths)
        index = checkpoint_index.believed(checkpoint_index.stored(paths), known)
        kinds = kinds | _roles(index, str(env_steps))  # saved again at the same step, it is still what it was
        temp = folder / f"{_TEMP}{env_steps}-{secrets.token_hex(4)}"
        try:
            fill(temp, env_steps, policy, state, {"kinds": sorted(kinds), "info": info})
            target = _publish(temp, folder / str(env_steps))
        except BaseException:
            shutil.rmtree(temp, ignore_errors=True)
            raise
        index = _next_index(index, str(env_steps), kinds, keep)
        failpoint("before_index")
        files.write_json(paths.checkpoint_index, index)
        failpoint("after_index")
        _prune(folder, _kept({**known, str(env_steps): sorted(kinds)}, index))
    except OSError as error:
        raise RunError(
            f"checkpoint at {env_steps} env_steps could not be written ({error.strerror}): earlier ones are intact"
        ) from error
    return target


def promote(paths: RunPaths, env_steps: int) -> Path:
    """Make a checkpoint the best one after the fact; killed on the way, it is or it is not."""
    folder = paths.checkpoints / str(env_steps)
    write_kinds(folder, sorted({*read_sidecar(folder, env_steps)["kinds"], "best"}))
    files.write_json(paths.checkpoint_index, checkpoint_index.derived(paths))
    return folder


def _kept(kinds: Mapping[str, list[str]], index: Mapping[str, Any]) -> set[str | None]:
    """What pruning spares: of the evaluated ones, those that a run going on from another would wait for."""
    kept = {index["best"], index["last"], *index["periodic"]}
    asked = sorted((int(name) for name, of in kinds.items() if "asked" in of), reverse=True)
    before = [next((step for step in asked if step <= int(name)), None) for name in kept if name is not None]
    return kept | {str(step) for step in before if step is not None}


def _publish(temp: Path, target: Path) -> Path:
    """Give a finished folder its name. One that is replaced stays findable until the new one is there."""
    aside = None
    if target.exists():
        aside = target.with_name(f"{ASIDE}{target.name}-{secrets.token_hex(4)}")
        os.rename(target, aside)
    try:
        if aside is not None:
            failpoint("between_renames")
        os.rename(temp, target)
    except BaseException:
        if aside is not None:
            os.rename(aside, target)
        raise
    failpoint("after_rename")
    platform.fsync_folder(target.parent)
    failpoint("after_sync")
    if aside is not None:
        shutil.rmtree(aside)
    return target


def _roles(index: Mapping[str, Any], name: str) -> set[Kind]:
    best: set[Kind] = {"best"} if index["best"] == name else set()
    return best | {"periodic"} if name in index["periodic"] else best


def _next_index(index: Mapping[str, Any], newest: str, kinds: set[Kind], keep: int) -> dict[str, Any]:
    periodic = {*index["periodic"], newest} if "periodic" in kinds else set(index["periodic"])
    best = newest if "best" in kinds else index["best"]
    return {"last": newest, "best": best, "periodic": sorted(periodic, key=int)[-keep:] if keep > 0 else []}


def read_index(paths: RunPaths) -> dict[str, Any]:
    """`{"last": name, "best": name, "periodic": [names]}`, as the folders say."""
    return checkpoint_index.read(paths)


def _prune(folder: Path, keep: Iterable[str | None]) -> None:
    kept = set(keep)
    doomed = [path for path in folder.iterdir() if NUMBERED.fullmatch(path.name) and path.name not in kept]
    if doomed:
        failpoint("before_prune")
    for path in doomed:
        with contextlib.suppress(OSError):  # in use, on Windows: the next save tries again
            _remove(path)
    if doomed:
        failpoint("after_prune")


def _remove(path: Path) -> None:
    """Take a folder out of sight in one step, then apart."""
    if path.is_symlink():
        path.unlink()
        return
    away = path.with_name(f"{_DOOMED}{path.name}-{secrets.token_hex(4)}")
    os.rename(path, away)
    failpoint("prune_renamed")
    (away / POLICY).unlink(missing_ok=True)
    failpoint("mid_prune")
    shutil.rmtree(away)


def recover(paths: RunPaths) -> None:
    """Clear up after a killed save. Only for the process that holds the run's lock."""
    if not paths.checkpoints.is_dir():
        return
    files.sweep_temp_files(paths.checkpoints)
    for path in list(paths.checkpoints.iterdir()):
        if path.name.startswith(ASIDE):
            target = path.with_name(path.name.removeprefix(ASIDE).rpartition("-")[0])
            if not target.exists():
                os.rename(path, target)
                continue
        if path.name.startswith((ASIDE, _DOOMED, _TEMP)):
            shutil.rmtree(path, ignore_errors=True)
    derived = checkpoint_index.derived(paths)
    if derived["last"] is not None and derived != checkpoint_index.stored(paths):
        files.write_json(paths.checkpoint_index, derived)


def cut_after(paths: RunPaths, env_steps: int) -> None:
    """Remove checkpoints newer than the one a run goes on from: damaged ones, which it will write again."""
    for step, folder in checkpoint_index.folders(paths).items():
        if step > env_steps:
            _remove(folder)
    files.write_json(paths.checkpoint_index, checkpoint_index.derived(paths))


def load_checkpoint(paths: RunPaths, which: str = "last", *, with_state: bool = True) -> Loaded:
    """Load `last`, `best` or the checkpoint at a number of env_steps, with every hash verified.

    A damaged last or best gives way to the newest valid one, told in `notes`; a number means that one or none.
    `with_state=False` leaves out what only training needs.
    """
    for _ in range(_RESCANS):
        before = _listing(paths)
        failure: Exception | None = None
        try:
            loaded = _load_first_valid(paths, which, with_state=with_state)
            if not loaded.notes:
                return loaded
        except (FileNotFoundError, GymlabError) as error:
            failure = error
        if before == _listing(paths):  # what is missing or damaged is so in truth
            break
        time.sleep(0.01)
    if isinstance(failure, FileNotFoundError):
        raise RunError(f"checkpoint '{which}' of run '{paths.run_id}' cannot be read: {failure}") from failure
    if failure is not None:
        raise failure
    return loaded


def _listing(paths: RunPaths) -> list[tuple[str, int]]:
    """Changes when the run's owner saves, replaces or prunes under a reader's hands."""
    with contextlib.suppress(FileNotFoundError), os.scandir(paths.checkpoints) as entries:
        folder = ("", paths.checkpoints.stat().st_mtime_ns)
        return [folder, *sorted((entry.name, entry.inode()) for entry in entries)]
    return []


def _load_first_valid(paths: RunPaths, which: str, *, with_state: bool) -> Loaded:
    notes: list[str] = []
    for step, folder in _candidates(paths, which, notes):
        try:
            sidecar = read_sidecar(folder, step)
            policy = read_tensors(folder, POLICY, sidecar)
            state = read_tensors(folder, STATE, sidecar) if with_state else {}
        except Damaged as damage:
            if which not in ("last", "best"):
                raise
            notes.append(str(damage))
            continue
        if notes:
            notes.append(f"using checkpoint {step} instead")
        return Loaded(folder, policy, state, sidecar["info"], notes, step)
    told = "; ".join(notes) or "none was saved"
    raise RunError(f"run '{paths.run_id}' has no valid checkpoint: {told}")


def _candidates(paths: RunPaths, which: str, notes: list[str]) -> list[tuple[int, Path]]:
    folders = checkpoint_index.folders(paths)
    if which == "last":
        return list(folders.items())
    if which == "best":
        named = (checkpoint_index.stored(paths) or {}).get("best")
        best = [item for item in folders.items() if _is_best(item[1], damaged=str(item[0]) == named)]
        if folders and not best:
            notes.append(f"run '{paths.run_id}' has no best checkpoint yet")
        return [*best, *(item for item in folders.items() if item not in best)]
    if not NUMBERED.fullmatch(which) or int(which) not in folders:
        names = ["last", "best", *map(str, folders)]
        raise UserError(f"run '{paths.run_id}' has no checkpoint {which[:80]!r}: {suggestion(which[:80], names)}")
    return [(int(which), folders[int(which)])]


def _is_best(folder: Path, *, damaged: bool) -> bool:
    """Whether a checkpoint was saved as best; `damaged` where it cannot tell."""
    try:
        return "best" in read_sidecar(folder)["kinds"]
    except Damaged:
        return damaged


def load_policy(path: Path) -> dict[str, np.ndarray]:
    """The policy of one checkpoint folder, verified; nothing else is read."""
    return read_tensors(path, POLICY, read_sidecar(path))


def steps(paths: RunPaths) -> list[int]:
    """The env_steps of the checkpoints there are, newest first."""
    return list(checkpoint_index.folders(paths))


def size_in_bytes(path: Path) -> int:
    """What a checkpoint's tensors take on disk."""
    return sum(int(facts["bytes"]) for facts in read_sidecar(path)["files"].values())
