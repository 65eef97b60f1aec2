"""TensorBoard: one event per update in runs/<id>/tensorboard, so that `tensorboard --logdir runs` shows every run."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from ctypes import c_float
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.errors import RunError
from gymlab.core.types import Json
from gymlab.metrics.catalogue import metric
from gymlab.runs import files
from gymlab.trackers.sink import RunInfo

PREFIX = "events.out.tfevents."  # what TensorBoard looks for
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")  # of the length and, after the data, of the data
_HEADER_BYTES = _LENGTH.size + _CHECKSUM.size
_EXACT = struct.Struct("<d")
BLOCK = 4096  # bytes of which a checksum is computed at once
_POLYNOMIAL = 0x82F63B78


class TensorBoardSink:
    """TensorBoard shows float32: a value that is not one is also stored exactly, in its metadata.

    Clips and models are not copied.
    """

    name = "TensorBoard"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None

    def describe(self) -> str:
        return "tensorboard"

    def start(self, info: RunInfo, at: Clock) -> int:
        """Open a new file for this session. Later events than `at` are cut from earlier files, and a session start
        event makes a TensorBoard that has read them discard them.
        """
        del info
        self.abandon()
        self._folder.mkdir(exist_ok=True)
        earlier = sorted(self._folder.glob(f"{PREFIX}*"))
        held = max([0, *(cut_after(path, at.vec_steps) for path in earlier)])
        number = 1 + (int(earlier[-1].name.removeprefix(PREFIX)) if earlier else 0)
        # Numbered, because TensorBoard reads files in the order of their names, and clocks can be set back.
        self._file = (self._folder / f"{PREFIX}{number:06}").open("xb")
        self._events = _proto("event")
        self._summaries = _proto("summary")
        self._described: set[str] = set()
        self._steps = held
        self._zero = time.time() - at.seconds
        self._write(0, file_version="brain.Event:2")
        if earlier:
            restart = self._events.SessionLog(status=self._events.SessionLog.START)
            self._write(at.seconds, step=held + 1, session_log=restart)
        self.flush()
        return held

    def row(self, clock: Clock, metrics: Mapping[str, float]) -> None:
        values = {**clock._asdict(), **metrics} if clock.vec_steps > self._steps else metrics
        self._steps = max(self._steps, clock.vec_steps)
        summary = self._summaries.Summary()
        for name, number in values.items():
            self._add(summary, name, float(number))
        self._write(clock.seconds, step=clock.vec_steps, summary=summary)

    def media(self, path: Path, step: int) -> None:
        """Not shown by TensorBoard."""

    def artifact(self, path: Path, aliases: tuple[str, ...]) -> None:
        """Not kept by TensorBoard: the checkpoint is where it was."""

    def flush(self) -> None:
        self._open_file.flush()

    def finish(self, seconds: float, *, failed: bool) -> None:
        del seconds, failed
        self.abandon()

    def abandon(self) -> None:
        file = self._file
        self._file = None
        if file is not None:
            file.close()

    @property
    def _open_file(self) -> IO[bytes]:
        if self._file is None:
            raise RunError("its event file is closed")
        return self._file

    def _add(self, summary: Any, name: str, number: float) -> None:
        shown = c_float(number).value
        value = summary.value.add(tag=name, simple_value=shown)
        if shown != number:
            value.metadata.plugin_data.content = _EXACT.pack(number)
        if name not in self._described:
            self._described.add(name)
            value.metadata.summary_description = metric(name).help

    def _write(self, seconds: float, **fields: Json) -> None:
        data = self._events.Event(wall_time=self._zero + seconds, **fields).SerializeToString()
        length = _LENGTH.pack(len(data))
        self._open_file.write(length + _checksum(length) + data + _checksum(data))


def _checksum(data: bytes) -> bytes:
    return _CHECKSUM.pack(masked_crc32c(data))


@cache
def _crc_tables() -> np.ndarray:
    """(BLOCK, 256): the contribution of a byte to the checksum, by the number of bytes after it in its block."""
    table: np.ndarray = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> 1) ^ np.where(table & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    tables = np.empty((BLOCK, 256), np.uint32)
    tables[0] = table
    for place in range(1, BLOCK):
        tables[place] = (tables[place - 1] >> 8) ^ table[tables[place - 1] & 0xFF]
    return tables


def masked_crc32c(data: bytes) -> int:
    """CRC-32C, rotated and offset as the TFRecord format requires.

    TensorBoard's own Python loop takes a quarter of a microsecond per byte, with the GIL held; this one is vectorised.
    """
    tables = _crc_tables()
    state = 0xFFFFFFFF
    for start in range(0, len(data), BLOCK):
        block = np.frombuffer(data[start : start + BLOCK], np.uint8).copy()
        # CRC is linear: the state so far is XORed into the next four bytes.
        head = min(4, len(block))
        block[:head] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)[:head]
        places = np.arange(len(block) - 1, -1, -1)
        state = int(np.bitwise_xor.reduce(tables[places, block])) ^ (state >> (8 * head))
    crc = state ^ 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class Point(NamedTuple):
    """One event of an event file."""

    step: int
    values: dict[str, float]  # exact
    record: bytes  # as it stands in the file


def points(path: Path) -> Iterator[Point]:
    """The whole events of an event file; a killed process may have left half of one at its end."""
    event_class = _proto("event").Event
    with path.open("rb") as file:
        while len(header := file.read(_HEADER_BYTES)) == _HEADER_BYTES:
            length = _LENGTH.unpack_from(header)[0]
            data = file.read(length)
            checksum = file.read(_CHECKSUM.size)
            if len(checksum) < _CHECKSUM.size:
                return
            event = event_class.FromString(data)
            values = {value.tag: _exact(value) for value in event.summary.value}
            yield Point(event.step, values, header + data + checksum)


def _exact(value: Any) -> float:
    stored = value.metadata.plugin_data.content
    return float(_EXACT.unpack(stored)[0]) if stored else float(value.simple_value)


def cut_after(path: Path, step: int) -> int:
    """Remove the events after a step from an event file; returns the last step left, 0 if there is none."""
    remaining = [point for point in points(path) if point.step <= step or not point.values]
    data = b"".join(point.record for point in remaining)
    if len(data) < path.stat().st_size:
        files.write_bytes(path, data)
    return max((point.step for point in remaining if point.values), default=0)


def _proto(name: str) -> Any:
    return import_module(f"tensorboard.compat.proto.{name}_pb2")
