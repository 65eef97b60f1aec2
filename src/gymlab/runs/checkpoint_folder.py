"""The format of one checkpoint folder: policy.safetensors (for acting), state.safetensors (for resuming training) and
checkpoint.json, which holds the hashes of both and of itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from gymlab.core.errors import FormatError, RunError
from gymlab.runs import files, platform, tensors
from gymlab.runs.failpoints import failpoint
from gymlab.runs.records import CheckpointInfo, Sidecar, TensorFile

POLICY = "policy.safetensors"
STATE = "state.safetensors"
SIDECAR = "checkpoint.json"
FORMAT = 2
_BLANK = b'"self": ""\n}\n'  # the end of a sidecar before its own hash is filled in
_HASH = 64  # hex digits
Arrays = Mapping[str, np.ndarray]


class Damaged(RunError):
    """A checkpoint does not match its hashes, or cannot be read."""


def write_folder(temp: Path, step: int, policy: Arrays, state: Arrays, kinds: list[str], info: CheckpointInfo) -> None:
    """Write a checkpoint durably into a new temporary folder."""
    temp.mkdir()
    failpoint("tmp_made")
    facts: dict[str, TensorFile] = {}
    for name, arrays, place in ((POLICY, policy, "policy"), (STATE, state, "state")):
        data = tensors.encode(arrays)
        facts[name] = {"sha256": files.sha256(data), "bytes": len(data)}
        files.write_new(temp / name, data, partial(failpoint, f"half_{place}"))
        failpoint(f"after_{place}")
    sidecar = Sidecar(format=FORMAT, step=step, kinds=kinds, info=info, files=facts)
    files.write_new(temp / SIDECAR, _sealed(sidecar), partial(failpoint, "half_json"))
    failpoint("after_json")
    platform.fsync_folder(temp)
    failpoint("before_rename")


def write_kinds(folder: Path, kinds: list[str]) -> None:
    """Change the kinds of a saved checkpoint, atomically."""
    files.write_bytes(folder / SIDECAR, _sealed({**read_sidecar(folder), "kinds": kinds}))


def add_metrics(folder: Path, values: Mapping[str, float]) -> None:
    """Add metrics to a saved checkpoint, or replace them, atomically."""
    sidecar = read_sidecar(folder)
    info: CheckpointInfo = {**sidecar["info"], "metrics": {**sidecar["info"]["metrics"], **values}}
    files.write_bytes(folder / SIDECAR, _sealed({**sidecar, "info": info}))


def _sealed(sidecar: Sidecar) -> bytes:
    """The sidecar's bytes, ending with the hash of the bytes before it."""
    return _with_hash(files.dump_json({**sidecar, "self": ""}).encode().removesuffix(_BLANK))


def _with_hash(rest: bytes) -> bytes:
    return rest + _BLANK.replace(b'""', b'"%s"' % files.sha256(rest + _BLANK).encode())


def _is_sealed(raw: bytes) -> bool:
    return raw == _with_hash(raw[: -len(_BLANK) - _HASH])


def read_sidecar(folder: Path, step: int | None = None) -> Sidecar:
    """The verified checkpoint.json (of this step, if one is given): format, step, kinds, info, files."""
    if folder.is_symlink():
        raise Damaged(f"checkpoint {folder.name} is a link: not followed")
    raw = _read(folder, SIDECAR, files.MAX_JSON_BYTES)
    try:
        sidecar = json.loads(raw.decode())
        rest = {key: value for key, value in sidecar.items() if key != "self"}
        sound = _is_sealed(raw)
        if sound and rest["format"] != FORMAT:
            raise FormatError(f"checkpoint {folder.name} has format {rest['format']!r}, and this gymlab reads {FORMAT}")
        sound = sound and isinstance(rest["kinds"], list)
        sound = sound and isinstance(rest["info"], dict) and isinstance(rest["step"], int)
        sound = sound and all(isinstance(rest["files"][name]["bytes"], int) for name in (POLICY, STATE))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound or step not in (None, rest["step"]):
        raise Damaged(f"checkpoint {folder.name} is damaged: {SIDECAR} is not what was saved")
    return cast("Sidecar", rest)


def read_tensors(folder: Path, name: str, sidecar: Sidecar) -> dict[str, np.ndarray]:
    """One of the two tensor files, verified against its hash."""
    expected = sidecar["files"][name]
    data = _read(folder, name, expected["bytes"])
    if len(data) != expected["bytes"] or files.sha256(data) != expected["sha256"]:
        raise Damaged(f"checkpoint {folder.name} is damaged: {name} does not match its hash")
    try:
        return tensors.decode(data)
    except ValueError as error:
        raise Damaged(f"checkpoint {folder.name} is damaged: {name}: {error}") from error


def _read(folder: Path, name: str, limit: int) -> bytes:
    try:
        return files.read_bytes(folder / name, limit)
    except (OSError, RunError) as error:
        if isinstance(error, FileNotFoundError) and not folder.exists():
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise Damaged(f"checkpoint {folder.name} is damaged: {name}: {reason}") from error
