"""Downsampled metric series for charts: one incremental cache per run, shared by all clients.

A bucket of updates keeps mean, minimum and maximum; a refresh reads only the buckets that are still open.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gymlab.core.clock import CLOCKS
from gymlab.core.errors import RunError
from gymlab.runs.metrics_reader import Buckets, Curve, CurveReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_record
from gymlab.web.live_updates import Stamp, metrics_stamp

MOST_POINTS = 800
_LATE = ("eval/", "score/")  # may be added to a row long after it was written
_KEPT_RUNS = 64
_LONG = 20_000  # updates: reading more than this is slow enough to show a sample first
_EMPTY = Curve(np.empty(0), np.empty(0), np.empty(0), np.empty(0))


T = TypeVar("T")


class RunSeries:
    """The metrics of one run that were requested so far. Used from worker threads."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._lock = threading.Lock()
        self._reset(1)
        self._session: object = None
        self._version = 0
        self._drawn: dict[Hashable, Any] = {}
        self._drawn_of = 0
        self.newest = 0
        self.names: list[str] = []
        self.rows_read = 0  # for tests: an unchanged file costs nothing, a changed one its open buckets

    def _reset(self, width: int) -> None:
        self._width = width
        self._number = np.empty(0, np.int64)
        self._clocks = {axis: np.empty(0) for axis in CLOCKS}
        self._values: dict[str, np.ndarray] = {}
        self._preview_buckets: Buckets | None = None
        self._fresh: dict[str, Stamp] = {}  # stamp of the file when a metric was read

    def refresh(self, names: Iterable[str]) -> None:
        """Read the new rows of these metrics. A run without a metrics store has none."""
        with self._lock:
            seen = metrics_stamp(self._paths)
            old = [name for name in dict.fromkeys(names) if self._fresh.get(name) != seen]
            if not old and self.names:
                return
            try:
                with CurveReader(self._paths.metrics) as reader:
                    self._read(reader, old)
                self._fresh |= dict.fromkeys(old, seen)
            except RunError:
                self._reset(1)
            self._version += 1

    def preview(self, names: Iterable[str]) -> bool:
        """Sample a long run within milliseconds; true where `refresh` has more to read."""
        with self._lock:
            new = [name for name in dict.fromkeys(names) if name not in self._values]
            if not new:
                return False
            try:
                with CurveReader(self._paths.metrics) as reader:
                    if reader.newest() < _LONG:
                        return False
                    self.names = reader.names()
                    self._preview_buckets = reader.sample(new, MOST_POINTS // 2)
            except RunError:
                return False
            self._version += 1
            return True

    def _read(self, reader: CurveReader, names: list[str]) -> None:
        newest = reader.newest()
        session = read_record(self._paths.status).get("sessions")
        width = _width(newest)
        if width != self._width or newest < self.newest or session != self._session:
            self._reset(width)  # grown past the bucket width, or cut back by a resumed session
        self.newest = newest
        self._session = session
        self.names = reader.names()
        starts: dict[int, list[str]] = {}
        for name in names:
            starts.setdefault(self._first_open(name), []).append(name)
        for first, group in sorted(starts.items()):
            found = reader.buckets(group, width, first)
            self.rows_read += len(found.bucket)
            self._merge(found.bucket, found.clocks, found.values)

    def _first_open(self, name: str) -> int:
        """The first bucket of a metric that may have changed since it was read."""
        known = self._values.get(name)
        if known is None or not len(known):
            return 0
        if name.startswith(_LATE):
            measured = np.flatnonzero(np.isfinite(known[:, 0]))
            return int(self._number[measured[-1]]) if len(measured) else 0
        return int(self._number[len(known) - 1])

    def _merge(self, number: np.ndarray, clocks: dict[str, np.ndarray], values: dict[str, np.ndarray]) -> None:
        if len(number):
            kept = np.searchsorted(self._number, number[0])
            if kept + len(number) >= len(self._number):
                self._number = np.concatenate([self._number[:kept], number])
                self._clocks = {a: np.concatenate([self._clocks[a][:kept], clocks[a]]) for a in CLOCKS}
        places = np.searchsorted(self._number, number)
        for name, cells in values.items():
            old = self._values.get(name, np.empty((0, 3)))
            grown = np.full((len(self._number), 3), np.nan)
            grown[: len(old)] = old[: len(grown)]
            grown[places] = cells
            self._values[name] = grown

    def trace(self, name: str, axis: str) -> Curve:
        """The curve of a metric over an axis; empty where it was never measured."""
        with self._lock:
            cells = self._values.get(name)
            clock = self._clocks[axis]
            if cells is None and self._preview_buckets is not None:
                cells = self._preview_buckets.values.get(name)
                clock = self._preview_buckets.clocks[axis]
            if cells is None or not len(cells):
                return _EMPTY
            measured = np.isfinite(cells[:, 0])
            x = clock[: len(cells)][measured]
            return Curve(x, cells[measured, 0], cells[measured, 1], cells[measured, 2])

    def drawn(self, key: Hashable, draw: Callable[[], T]) -> T:
        """Cached result of `draw`, until new rows are read: many clients share one rendering."""
        if self._drawn_of != self._version:
            self._drawn_of = self._version
            self._drawn.clear()
        if key not in self._drawn:
            self._drawn[key] = draw()
        found: T = self._drawn[key]
        return found

    def clock_at(self, axis: str, env_steps: float) -> float:
        """The value of an axis at a number of env_steps."""
        with self._lock:
            if not len(self._number):
                return env_steps
            return float(np.interp(env_steps, self._clocks["env_steps"], self._clocks[axis]))


def _width(newest: int) -> int:
    width = 1
    while newest // width >= MOST_POINTS:
        width *= 2
    return width


class SeriesCache:
    """LRU cache of the series of runs."""

    def __init__(self) -> None:
        self._runs: OrderedDict[Path, RunSeries] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, paths: RunPaths) -> RunSeries:
        """The series of one run, shared by all pages."""
        with self._lock:
            known = self._runs.pop(paths.root, None) or RunSeries(paths)
            self._runs[paths.root] = known
            while len(self._runs) > _KEPT_RUNS:
                self._runs.popitem(last=False)
            return known
