"""Which checkpoints there are: index.json says it in short, and is believed only where the folders say the same.

Those are protected by hashes: a flipped bit in the index must not make another checkpoint the best, nor prune the best.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

from gymlab.core.errors import RunError
from gymlab.runs import files
from gymlab.runs.checkpoint_folder import Damaged, read_sidecar
from gymlab.runs.paths import RunPaths

NUMBERED = re.compile(r"0|[1-9][0-9]{0,18}")
ASIDE = ".old-"  # one that is being replaced


def read(paths: RunPaths) -> dict[str, Any]:
    """`{"last": name, "best": name, "periodic": [names]}`; derived from the folders where the file is not theirs."""
    return believed(stored(paths), kinds_of(paths))


def believed(written: dict[str, Any] | None, kinds: dict[str, list[str]]) -> dict[str, Any]:
    """The file where it says what the folders say, else what those say."""
    true = _derived(kinds)
    if written is None or any(written[key] != true[key] for key in ("last", "best")):
        return true
    periodic = written["periodic"]
    sound = len(set(periodic)) == len(periodic) and set(periodic) <= set(true["periodic"])
    return written if sound else true


def derived(paths: RunPaths) -> dict[str, Any]:
    """The index that the sound folders make."""
    return _derived(kinds_of(paths))


def kinds_of(paths: RunPaths) -> dict[str, list[str]]:
    """What every sound checkpoint is for, newest first."""
    kinds: dict[str, list[str]] = {}
    for step, folder in folders(paths).items():
        with contextlib.suppress(Damaged, FileNotFoundError):
            kinds[str(step)] = read_sidecar(folder, step)["kinds"]
    return kinds


def _derived(kinds: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "last": next(iter(kinds), None),
        "best": next((name for name, of in kinds.items() if "best" in of), None),
        "periodic": [name for name, of in reversed(kinds.items()) if "periodic" in of],
    }


def stored(paths: RunPaths) -> dict[str, Any] | None:
    """The file, if it can be read at all."""
    with contextlib.suppress(OSError, RunError, KeyError, TypeError, AttributeError):
        index = files.read_json(paths.inside(paths.checkpoint_index))
        names = [index["last"], *index["periodic"], *([] if index["best"] is None else [index["best"]])]
        if all(NUMBERED.fullmatch(name) for name in names):
            return {key: index[key] for key in ("last", "best", "periodic")}
    return None


def folders(paths: RunPaths) -> dict[int, Path]:
    """Checkpoint folders by env_steps, newest first: the number grows within a run, so it is the order of saving.

    One that was put aside counts as long as its successor is not there.
    """
    found: dict[int, Path] = {}
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(paths.inside(paths.checkpoints).iterdir()):  # ".old-" sorts before digits
            name = path.name.removeprefix(ASIDE).rpartition("-")[0] if path.name.startswith(ASIDE) else path.name
            if NUMBERED.fullmatch(name):
                found[int(name)] = path
    return {step: found[step] for step in sorted(found, reverse=True)}
