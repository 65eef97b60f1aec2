"""The checkpoints of a run: saving, finding, loading and pruning them, and their index.

A folder appears as checkpoints/<step> only when it is whole and durable; `step` counts on the clock of the run's first
budget (`manifest.checkpoint_clock`). `last` is always the newest, `best` the
newest that was saved as best. index.json is a cache of the folders' sidecars, which are protected by hashes: it is used
only where they agree, so that a flipped bit in it cannot change the best checkpoint or prune it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, cast

import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.errors import GymlabError, RunError, UserError, suggestion
from gymlab.runs import files, platform
from gymlab.runs.checkpoint_folder import (
    POLICY,
    STATE,
    Arrays,
    Damaged,
    add_metrics,
    read_sidecar,
    read_tensors,
    write_folder,
    write_kinds,
)
from gymlab.runs.failpoints import failpoint
from gymlab.runs.manifest import checkpoint_clock
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import CheckpointIndex, CheckpointInfo

_NUMBERED = re.compile(r"0|[1-9][0-9]{0,18}")
_REPLACED = ".old-"  # prefix of a folder while a new one of the same step takes its place
_DELETED = ".del-"
_TEMP = ".tmp-"
_RESCANS = 20  # a reader of a live run may find a folder while it is being replaced or pruned

Kind = Literal["periodic", "asked", "best", "last"]  # asked: an evaluation of it was asked for


class Loaded(NamedTuple):
    """A verified checkpoint."""

    path: Path
    policy: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    info: CheckpointInfo
    notes: list[str]  # about damaged checkpoints that were skipped
    step: int  # the folder's name


def folder_of(paths: RunPaths, clock: Clock) -> Path:
    """The folder of the checkpoint written at `clock`, whether or not there is one."""
    return paths.checkpoints / str(clock.at(checkpoint_clock(paths)))


def save_checkpoint(
    paths: RunPaths, *, step: int, policy: Arrays, state: Arrays, info: CheckpointInfo, kinds: set[Kind], keep: int
) -> Path:
    """Save a checkpoint, then prune to `keep` periodic ones beside best and last.

    Killed at any instruction, or out of disk, it leaves the previous checkpoints as they were.
    """
    folder = paths.checkpoints
    try:
        paths.inside(folder).mkdir(exist_ok=True)
        failpoint("save_begin")
        known = _read_kinds(paths)
        index = _checked_index(_stored_index(paths), known)
        kinds = kinds | _index_kinds(index, str(step))  # saved again at the same step, it keeps its kinds
        temp = folder / f"{_TEMP}{step}-{secrets.token_hex(4)}"
        try:
            write_folder(temp, step, policy, state, sorted(kinds), info)
            target = _publish(temp, folder / str(step))
        finally:
            shutil.rmtree(temp, ignore_errors=True)  # exists only if an error came before the rename
        index = _next_index(index, str(step), kinds, keep)
        failpoint("before_index")
        files.write_json(paths.checkpoint_index, index)
        failpoint("after_index")
        _prune(folder, _not_pruned({**known, str(step): sorted(kinds)}, index))
    except OSError as error:
        raise RunError(f"checkpoint {step} could not be written ({error.strerror}): earlier ones are intact") from error
    return target


def add_late_metrics(paths: RunPaths, clock: Clock, values: Mapping[str, float]) -> None:
    """Add what was measured after a checkpoint was saved, if it is still there."""
    if not values:
        return
    with contextlib.suppress(FileNotFoundError, Damaged):  # a damaged one is reported where it is read
        add_metrics(folder_of(paths, clock), values)


def promote(paths: RunPaths, step: int) -> Path:
    """Make a saved checkpoint the best one, atomically."""
    folder = paths.checkpoints / str(step)
    write_kinds(folder, sorted({*read_sidecar(folder, step)["kinds"], "best"}))
    files.write_json(paths.checkpoint_index, _index_of(_read_kinds(paths)))
    return folder


def _not_pruned(kinds: Mapping[str, list[str]], index: CheckpointIndex) -> set[str | None]:
    """The names in the index, and the last checkpoint before each whose evaluation a run resumed there waits for."""
    names = {index["best"], index["last"], *index["periodic"]}
    asked = sorted((int(name) for name, own in kinds.items() if "asked" in own), reverse=True)
    before = [next((step for step in asked if step <= int(name)), None) for name in names if name is not None]
    return names | {str(step) for step in before if step is not None}


def _publish(temp: Path, target: Path) -> Path:
    """Rename a finished folder to its final name. One that it replaces can be found until the new one is in place."""
    replaced = None
    if target.exists():
        replaced = target.with_name(f"{_REPLACED}{target.name}-{secrets.token_hex(4)}")
        os.rename(target, replaced)
    try:
        if replaced is not None:
            failpoint("between_renames")
        os.rename(temp, target)
    finally:
        if replaced is not None and not target.exists():  # the rename failed
            os.rename(replaced, target)
    failpoint("after_rename")
    platform.fsync_folder(target.parent)
    failpoint("after_sync")
    if replaced is not None:
        shutil.rmtree(replaced)
    return target


def _index_kinds(index: CheckpointIndex, name: str) -> set[Kind]:
    best: set[Kind] = {"best"} if index["best"] == name else set()
    return best | {"periodic"} if name in index["periodic"] else best


def _next_index(index: CheckpointIndex, newest: str, kinds: set[Kind], keep: int) -> CheckpointIndex:
    periodic = {*index["periodic"], newest} if "periodic" in kinds else set(index["periodic"])
    best = newest if "best" in kinds else index["best"]
    return {"last": newest, "best": best, "periodic": sorted(periodic, key=int)[-keep:] if keep > 0 else []}


def read_index(paths: RunPaths) -> CheckpointIndex:
    """`{"last": name, "best": name, "periodic": [names]}`; derived from the folders where the file does not match."""
    return _checked_index(_stored_index(paths), _read_kinds(paths))


def _checked_index(stored: CheckpointIndex | None, kinds: dict[str, list[str]]) -> CheckpointIndex:
    """The stored index if it agrees with the sidecars, else the index that these make."""
    derived = _index_of(kinds)
    if stored is None or (stored["last"], stored["best"]) != (derived["last"], derived["best"]):
        return derived
    periodic = stored["periodic"]
    valid = len(set(periodic)) == len(periodic) and set(periodic) <= set(derived["periodic"])
    return stored if valid else derived


def _index_of(kinds: dict[str, list[str]]) -> CheckpointIndex:
    return {
        "last": next(iter(kinds), None),
        "best": next((name for name, own in kinds.items() if "best" in own), None),
        "periodic": [name for name, own in reversed(kinds.items()) if "periodic" in own],
    }


def _read_kinds(paths: RunPaths) -> dict[str, list[str]]:
    """The kinds of every undamaged checkpoint, newest first."""
    kinds: dict[str, list[str]] = {}
    for step, folder in _folders(paths).items():
        with contextlib.suppress(Damaged, FileNotFoundError):
            kinds[str(step)] = read_sidecar(folder, step)["kinds"]
    return kinds


def _stored_index(paths: RunPaths) -> CheckpointIndex | None:
    """index.json; None if it cannot be read."""
    with contextlib.suppress(OSError, RunError, KeyError, TypeError, AttributeError):
        index = cast("CheckpointIndex", files.read_json(paths.inside(paths.checkpoint_index)))
        names = [index["last"], *index["periodic"], *([] if index["best"] is None else [index["best"]])]
        if all(_NUMBERED.fullmatch(cast("str", name)) for name in names):  # TypeError for another kind of value
            return {"last": index["last"], "best": index["best"], "periodic": index["periodic"]}
    return None


def _folders(paths: RunPaths) -> dict[int, Path]:
    """Checkpoint folders by step, newest first: the number grows within a run, so it is the order of saving.

    One that is being replaced counts as long as its successor is not in place.
    """
    found: dict[int, Path] = {}
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(paths.inside(paths.checkpoints).iterdir()):  # ".old-" sorts before digits
            replaced = path.name.startswith(_REPLACED)
            name = path.name.removeprefix(_REPLACED).rpartition("-")[0] if replaced else path.name
            if _NUMBERED.fullmatch(name):
                found[int(name)] = path
    return {step: found[step] for step in sorted(found, reverse=True)}


def _prune(folder: Path, keep: Iterable[str | None]) -> None:
    names = set(keep)
    pruned = [path for path in folder.iterdir() if _NUMBERED.fullmatch(path.name) and path.name not in names]
    if pruned:
        failpoint("before_prune")
    for path in pruned:
        with contextlib.suppress(OSError):  # in use, on Windows: the next save tries again
            _remove(path)
    if pruned:
        failpoint("after_prune")


def _remove(path: Path) -> None:
    """Delete a folder: renamed first, so that no reader finds half of it."""
    if path.is_symlink():
        path.unlink()
        return
    deleted = path.with_name(f"{_DELETED}{path.name}-{secrets.token_hex(4)}")
    os.rename(path, deleted)
    failpoint("prune_renamed")
    (deleted / POLICY).unlink(missing_ok=True)
    failpoint("mid_prune")
    shutil.rmtree(deleted)


def recover(paths: RunPaths) -> None:
    """Clean up after a killed save. Only for the process that holds the run's lock."""
    if not paths.checkpoints.is_dir():
        return
    files.sweep_temp_files(paths.checkpoints)
    for path in list(paths.checkpoints.iterdir()):
        if path.name.startswith(_REPLACED):
            target = path.with_name(path.name.removeprefix(_REPLACED).rpartition("-")[0])
            if not target.exists():
                os.rename(path, target)
                continue
        if path.name.startswith((_REPLACED, _DELETED, _TEMP)):
            shutil.rmtree(path, ignore_errors=True)
    derived = _index_of(_read_kinds(paths))
    if derived["last"] is not None and derived != _stored_index(paths):
        files.write_json(paths.checkpoint_index, derived)


def cut_after(paths: RunPaths, step: int) -> None:
    """Remove checkpoints newer than the one a run resumes from: they are damaged and will be written again."""
    for later, folder in _folders(paths).items():
        if later > step:
            _remove(folder)
    files.write_json(paths.checkpoint_index, _index_of(_read_kinds(paths)))


def load_checkpoint(paths: RunPaths, which: str = "last", *, with_state: bool = True) -> Loaded:
    """Load `last`, `best` or the checkpoint of a step, with every hash verified.

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
        if before == _listing(paths):  # nothing changed meanwhile: it is really missing or damaged
            break
        time.sleep(0.01)
    if isinstance(failure, FileNotFoundError):
        raise RunError(f"checkpoint '{which}' of run '{paths.run_id}' cannot be read: {failure}") from failure
    if failure is not None:
        raise failure
    return loaded


def _listing(paths: RunPaths) -> list[tuple[str, int]]:
    """The folders' identities: they change when the run's owner saves, replaces or prunes."""
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
    reason = "; ".join(notes) or "none was saved"
    raise RunError(f"run '{paths.run_id}' has no valid checkpoint: {reason}")


def _candidates(paths: RunPaths, which: str, notes: list[str]) -> list[tuple[int, Path]]:
    folders = _folders(paths)
    if which == "last":
        return list(folders.items())
    if which == "best":
        index = _stored_index(paths)
        named = None if index is None else index["best"]
        best = [item for item in folders.items() if _is_best(item[1], damaged=str(item[0]) == named)]
        if folders and not best:
            notes.append(f"run '{paths.run_id}' has no best checkpoint yet")
        return [*best, *(item for item in folders.items() if item not in best)]
    if not _NUMBERED.fullmatch(which) or int(which) not in folders:
        names = ["last", "best", *map(str, folders)]
        raise UserError(f"run '{paths.run_id}' has no checkpoint {which[:80]!r}: {suggestion(which[:80], names)}")
    return [(int(which), folders[int(which)])]


def _is_best(folder: Path, *, damaged: bool) -> bool:
    """Whether a checkpoint was saved as best; `damaged` if its sidecar cannot be read."""
    try:
        return "best" in read_sidecar(folder)["kinds"]
    except Damaged:
        return damaged


def load_policy(path: Path) -> dict[str, np.ndarray]:
    """The verified policy of one checkpoint folder."""
    return read_tensors(path, POLICY, read_sidecar(path))


def steps(paths: RunPaths) -> list[int]:
    """The steps of all checkpoints, newest first."""
    return list(_folders(paths))


def size_in_bytes(path: Path) -> int:
    """The size of a checkpoint's tensor files."""
    return sum(int(facts["bytes"]) for facts in read_sidecar(path)["files"].values())
