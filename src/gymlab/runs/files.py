"""Atomic file writes (temp file, fsync, rename, fsync of the folder), bounded reads, and JSON."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from gymlab.core.cooperative_lock import yield_lock
from gymlab.core.errors import RunError
from gymlab.core.types import Json
from gymlab.runs import platform

TEMP_MARK = ".tmp-"
_WIDTH = 100  # longest value on one line
MAX_JSON_BYTES = 256 * 2**20  # a run folder may come from an untrusted source


@contextlib.contextmanager
def atomic(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A temporary file to write, renamed to `path` at the end of the block, or deleted after an error.

    `durable=False` leaves out the fsyncs: still atomic after a kill, but a power cut may undo it.
    """
    temp = path.with_name(f".{path.name}{TEMP_MARK}{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(platform.open_new(temp), "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        platform.replace(temp, path)
    finally:
        with contextlib.suppress(OSError):  # exists only if an error came before the rename
            temp.unlink()
    if durable:
        platform.fsync_folder(path.parent)


def write_bytes(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file's content atomically."""
    with yield_lock(), atomic(path, durable=durable) as file:
        file.write(data)


def write_text(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace a text file atomically: UTF-8, line endings unchanged."""
    write_bytes(path, text.encode(), durable=durable)


def write_json(path: Path, value: object, *, durable: bool = True) -> None:
    """Replace a JSON file atomically."""
    write_text(path, dump_json(value), durable=durable)


def dump_json(value: object) -> str:
    """Indented JSON of plain and NumPy values, with short values on one line. NaN and infinities as Python writes them.

    `json.dumps(indent=2)` takes ten times as long, and checkpoints wait for it.
    """
    return _lines(value, "\n", room=0) + "\n"


def _lines(value: object, line: str, room: int) -> str:
    """`value` on one line if it fits in `room`, else one item per line; `line` is the newline with its indent."""
    text = json.dumps(value, default=_json_default)
    if len(text) <= room or not isinstance(value, dict | list | tuple) or not value:
        return text
    deeper = line + "  "
    if isinstance(value, dict):
        if all(isinstance(item, str | int | float | None) for item in value.values()):  # the usual case, in one call
            return f"{{{deeper}{json.dumps(value, separators=(f',{deeper}', ': '))[1:-1]}{line}}}"
        items = [f"{json.dumps({key: 0})[1:-2]}{_lines(item, deeper, _WIDTH)}" for key, item in value.items()]
        return f"{{{deeper}{f',{deeper}'.join(items)}{line}}}"
    if not any(isinstance(item, dict | list | tuple) for item in value):
        return text
    items = [_lines(item, deeper, _WIDTH) for item in value]
    return f"[{deeper}{f',{deeper}'.join(items)}{line}]"


def strict_json(value: object) -> str:
    """Standard JSON on one line, for other programs: NaN and infinities become null."""
    return json.dumps(_finite(json.loads(json.dumps(value, default=_json_default))))


def _finite(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json_default(value: object) -> Json:
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return value.tolist()
    if isinstance(value, Path):
        return value.as_posix()
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no place in a JSON file: {value!r}")


def read_bytes(path: Path, limit: int | None = None) -> bytes:
    """A whole file; links are refused, and RunError if it is larger than `limit` bytes."""
    with os.fdopen(platform.open_read(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if limit is not None and size > limit:
            raise RunError(f"{path} is {size} bytes long, more than the limit of {limit}")
        return file.read()


def read_json(path: Path) -> Json:
    """The content of a JSON file; RunError if it is damaged, FileNotFoundError if it does not exist."""
    raw = read_bytes(path, MAX_JSON_BYTES)
    try:
        content: Json = json.loads(raw.decode())
        return content
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: {error}") from error


def sha256(data: bytes) -> str:
    """The hex digest of some bytes."""
    return hashlib.sha256(data).hexdigest()


def write_new(path: Path, data: bytes, halfway: Callable[[], None]) -> None:
    """Write and fsync a file in a temporary folder; `halfway` is called when half of it is written (a failpoint)."""
    with yield_lock(), os.fdopen(platform.open_new(path), "wb", buffering=0) as file:
        half = len(data) // 2
        for part, then in ((data[:half], halfway), (data[half:], lambda: None)):
            rest = memoryview(part)
            while rest:
                rest = rest[file.write(rest) :]
            then()
        os.fsync(file.fileno())


def sweep_temp_files(folder: Path) -> None:
    """Delete the temporary files of killed writers. Only for the one process that may write here."""
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            if entry.name.startswith(".") and TEMP_MARK in entry.name and not entry.is_dir(follow_symlinks=False):
                Path(entry.path).unlink(missing_ok=True)
