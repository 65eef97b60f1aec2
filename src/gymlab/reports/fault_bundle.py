"""The fault bundle of a numerical fault: `faults/<update>/` with the rollout, the state before the update and a report.

rollout.safetensors, state.safetensors, recipe.yaml and fault.json, which holds the hashes of the others. No pickle.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

import numpy as np

from gymlab.core.errors import RunError
from gymlab.runs import files, platform, tensors
from gymlab.runs.paths import RunPaths
from gymlab.runs.redact import redact_tree

ROLLOUT = "rollout.safetensors"
STATE = "state.safetensors"
RECIPE = "recipe.yaml"
REPORT = "fault.json"
FORMAT = 2
Arrays = Mapping[str, np.ndarray]
_NAME = re.compile(r"[0-9]{6,18}")
_TEMP = ".tmp-"


class TensorStatistics(TypedDict, total=False):
    """A tensor of a fault report: its finite range, and how many of its values are NaN or infinite."""

    name: str
    shape: list[int]
    dtype: str
    min: float | None
    max: float | None
    nan: int
    inf: int


class FaultDescription(TypedDict):
    """What is known about a fault."""

    env_steps: int
    vec_steps: int
    seed: int
    engine: str
    message: str
    findings: list[dict[str, object]]  # `NonfiniteTensor`s
    advice: list[str]
    hp: dict[str, float]
    tensors: list[TensorStatistics]


class FaultReport(FaultDescription):
    """`fault.json`."""

    format: int
    update: int
    files: dict[str, str]  # the sha256 of each


class Bundle(NamedTuple):
    """A bundle with its report; the tensor files are read when asked for."""

    path: Path
    report: FaultReport

    @property
    def recipe(self) -> Path:
        return self.path / RECIPE

    def rollout(self) -> dict[str, np.ndarray]:
        return self._tensors(ROLLOUT)

    def state(self) -> dict[str, np.ndarray]:
        return self._tensors(STATE)

    def _tensors(self, name: str) -> dict[str, np.ndarray]:
        data = files.read_bytes(self.path / name)
        if files.sha256(data) != self.report["files"].get(name):
            raise RunError(f"bundle {self.path.name} is damaged: {name} does not match its hash")
        try:
            return tensors.decode(data)
        except ValueError as error:
            raise RunError(f"bundle {self.path.name} is damaged: {name}: {error}") from error


def write_bundle(
    paths: RunPaths, update: int, *, rollout: Arrays, state: Arrays, recipe: str, report: FaultDescription
) -> Path:
    """Write a bundle, whole or not at all; one of the same update is replaced. `recipe` holds no secrets."""
    folder = paths.root / "faults"
    paths.inside(folder).mkdir(exist_ok=True)
    for left in folder.glob(f"{_TEMP}*"):  # of a killed process; this one holds the run's lock
        shutil.rmtree(left, ignore_errors=True)
    target = folder / f"{update:06}"
    temp = folder / f"{_TEMP}{secrets.token_hex(4)}"
    temp.mkdir()
    try:
        contents = {ROLLOUT: tensors.encode(rollout), STATE: tensors.encode(state), RECIPE: recipe.encode()}
        hashes = {name: files.sha256(data) for name, data in contents.items()}
        document = {"format": FORMAT, "update": update, **redact_tree(dict(report)), "files": hashes}
        for name, data in {**contents, REPORT: files.dump_json(document).encode()}.items():
            files.write_new(temp / name, data, lambda: None)
        if target.exists():
            shutil.rmtree(target)
        os.rename(temp, target)
        platform.fsync_folder(folder)
    finally:
        shutil.rmtree(temp, ignore_errors=True)  # exists only if an error came before the rename
    return target


def bundles(paths: RunPaths) -> list[Path]:
    """The bundles of a run, newest update first."""
    folder = paths.inside(paths.root / "faults")
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted((path for path in found if not path.is_symlink()), reverse=True)


def read_bundle(path: Path) -> Bundle:
    """A bundle with its validated report; RunError if it is damaged."""
    try:
        report = cast("FaultReport", files.read_json(path / REPORT))
    except OSError as error:
        raise RunError(f"bundle {path.name} cannot be read: {error.strerror}") from error
    expected = {"update": int, "env_steps": int, "vec_steps": int, "seed": int, "message": str, "findings": list}
    expected |= {"advice": list, "hp": dict, "tensors": list, "files": dict}
    sound = isinstance(report, dict) and report.get("format") == FORMAT
    sound = sound and all(isinstance(report.get(key), kind) for key, kind in expected.items())
    if not sound or not all(isinstance(value, int | float) for value in report["hp"].values()):
        raise RunError(f"bundle {path.name} is damaged: {REPORT} is not what was written")
    return Bundle(path, report)


def statistics(arrays: Arrays) -> list[TensorStatistics]:
    """Per tensor: name, shape, dtype, finite minimum and maximum, and the number of NaN and infinite values."""
    return [{"name": name, **_tensor_statistics(np.asarray(array))} for name, array in arrays.items()]


def _tensor_statistics(array: np.ndarray) -> TensorStatistics:
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    bad = array.size - finite.size
    nan = int(np.isnan(array).sum()) if bad else 0
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "min": finite.min().item() if finite.size else None,
        "max": finite.max().item() if finite.size else None,
        "nan": nan,
        "inf": bad - nan,
    }
