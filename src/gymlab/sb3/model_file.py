"""The file of a saved model: a .zip of safetensors and JSON. Nothing in it is ever executed or unpacked to disk."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from gymlab.core.errors import RunError, UserError
from gymlab.runs import files, tensors

POLICY = "policy.safetensors"
STATE = "state.safetensors"
ABOUT = "model.json"
FORMAT = 1
MOST_BYTES = 8 * 2**30  # of one tensor file
MOST_JSON_BYTES = 16 * 2**20
_DATE = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes

Arrays = Mapping[str, np.ndarray]


class ModelFile(NamedTuple):
    policy: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    about: dict[str, Any]


def with_suffix(path: str | Path) -> Path:
    """`ppo_cartpole` as `ppo_cartpole.zip`; a name that has an ending keeps it, as in SB3."""
    path = Path(path)
    return path if path.suffix else path.with_name(path.name + ".zip")


def write_model(target: str | Path | IO[bytes], policy: Arrays, state: Arrays, about: Mapping[str, Any]) -> None:
    """Write the file whole or not at all; folders on the way are made. An open binary file is written to as it is."""
    blobs = {POLICY: tensors.encode(policy), STATE: tensors.encode(state)}
    facts = {name: {"sha256": files.sha256(blob), "bytes": len(blob)} for name, blob in blobs.items()}
    blobs[ABOUT] = files.dump_json({"format": FORMAT, **about, "files": facts}).encode()
    if not isinstance(target, str | Path):
        _write(target, blobs)
        return
    path = with_suffix(target)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.atomic(path) as file:
            _write(file, blobs)
    except OSError as error:
        raise UserError(f"the model could not be saved to '{path}': {error.strerror}") from error


def _write(file: IO[bytes], blobs: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, blob in blobs.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), blob)


def read_model(source: str | Path | IO[bytes]) -> ModelFile:
    """Read and verify a saved model."""
    path: Any = source
    if isinstance(source, str | Path):
        path = Path(source) if Path(source).is_file() else with_suffix(source)
        if not path.is_file():
            raise UserError(f"there is no model '{path}'")
    try:
        with zipfile.ZipFile(path) as archive:
            about = _about(archive, str(path))
            policy, state = (_tensors(archive, name, about, str(path)) for name in (POLICY, STATE))
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
        raise RunError(f"'{path}' is no model file or damaged: {error}") from error
    return ModelFile(policy, state, about)


def _about(archive: zipfile.ZipFile, path: str) -> dict[str, Any]:
    if ABOUT not in archive.namelist():
        if "policy.pth" in archive.namelist():
            raise UserError(
                f"'{path}' was saved by Stable-Baselines3: it holds pickles, which are not read here. Train anew"
            )
        raise RunError(f"'{path}' is no model file: it has no {ABOUT}")
    try:
        about = json.loads(_member(archive, ABOUT, MOST_JSON_BYTES, path))
        written = about["format"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise RunError(f"'{path}': {ABOUT} is damaged: {error}") from error
    if written != FORMAT:
        raise RunError(f"'{path}' has format {written!r}, and this gymlab reads {FORMAT}: update gymlab")
    return dict(about)


def _member(archive: zipfile.ZipFile, name: str, most: int, path: str) -> bytes:
    """One member, which must be there once and stored as it is: what is not compressed cannot swell."""
    found = [info for info in archive.infolist() if info.filename == name]
    if len(found) != 1:
        raise RunError(f"'{path}' holds {name} {len(found)} times")
    info = found[0]
    plain = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size and not info.flag_bits & 1
    if not plain or info.file_size > most:
        raise RunError(f"'{path}': {name} is compressed, encrypted or larger than {most} bytes: not read")
    with archive.open(info) as member:
        return member.read(info.file_size)


def _tensors(archive: zipfile.ZipFile, name: str, about: Mapping[str, Any], path: str) -> dict[str, np.ndarray]:
    blob = _member(archive, name, MOST_BYTES, path)
    try:
        expected = about["files"][name]["sha256"]
        if files.sha256(blob) != expected:
            raise RunError(f"'{path}' is damaged: {name} is not what was saved")
        return tensors.decode(blob)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"'{path}' is damaged: {name}: {error}") from error
