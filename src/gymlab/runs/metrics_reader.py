"""Readers of `metrics.db`: exact rows and series, and downsampled curves whose cost does not grow with the run.

There are two ways to downsample. `CurveReader.curves` reads an even sample of the rows of a run, for reports and
one-off plots. `CurveReader.buckets` lets SQLite fold a power of two of updates into one point, so that new rows change
only the last bucket: for caches that follow a live run.
"""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from gymlab.core.clock import CLOCKS, Clock
from gymlab.core.errors import RunError, UserError, suggestion
from gymlab.runs import files, metrics_db
from gymlab.runs.metrics_db import CLOCK_COLUMNS, Cell, Histograms

_MAX_CELLS = 300_000
_MIN_ROWS = 4_000
_SPARSE = 0.5  # a metric that fewer sampled rows than this have is read whole
_NO_END = 2**63 - 1
Columns = tuple[np.ndarray, np.ndarray]  # clock, values


@dataclass(frozen=True)
class Curve:
    """A metric over a clock, downsampled: mean, minimum and maximum of each group of rows."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    name: str = ""
    axis: str = "vec_steps"
    not_finite: int = 0  # measured values that are NaN or infinite, left out

    def __len__(self) -> int:
        return len(self.x)

    @property
    def last(self) -> float:
        return float(self.y[-1]) if len(self) else float("nan")


def make_curve(name: str, axis: str, x: np.ndarray, y: np.ndarray, points: int = 400) -> Curve:
    """A curve of at most `points` points through all finite values."""
    finite = np.isfinite(y) & np.isfinite(x)
    lost = int((~finite).sum())
    x = x[finite]
    y = y[finite]
    if len(x) <= points:
        return Curve(x, y, y, y, name, axis, lost)
    edges = np.linspace(0, len(x), points + 1).astype(int)
    starts = edges[:-1]
    counts = np.diff(edges)
    mean_x, mean_y = (np.add.reduceat(values, starts) / counts for values in (x, y))
    mean_x[-1] = x[-1]  # a curve ends where the run does
    low = np.minimum.reduceat(y, starts)
    high = np.maximum.reduceat(y, starts)
    return Curve(mean_x, mean_y, low, high, name, axis, lost)


def smooth_curve(curve: Curve, share: float) -> Curve:
    """The curve with each value replaced by the mean over a window as wide as this share of the axis."""
    if share <= 0 or len(curve) < 3:
        return curve
    half = share * (curve.x[-1] - curve.x[0]) / 2
    first = np.searchsorted(curve.x, curve.x - half, side="left")
    after = np.searchsorted(curve.x, curve.x + half, side="right")
    sums = np.concatenate([[0.0], np.cumsum(curve.y)])
    return replace(curve, y=(sums[after] - sums[first]) / (after - first))


class Buckets(NamedTuple):
    """Metrics over buckets of consecutive updates."""

    bucket: np.ndarray  # (B,) update // width
    clocks: dict[str, np.ndarray]  # (B,) each clock at the end of the bucket
    values: dict[str, np.ndarray]  # (B, 3) mean, minimum, maximum; NaN where nothing finite was measured


class MetricsReader:
    """Reads a run's metrics, also while they are being written."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise RunError(f"no metrics at {path}")
        metrics_db.refuse_links(path)
        # In a read-only folder SQLite cannot create its WAL files. Without one there is no writer: `immutable` is safe.
        alone = not path.with_name(path.name + "-wal").exists()
        self._path = path
        with metrics_db.translate_errors(path):
            try:
                self._db = metrics_db.open_read_only(path)
            except sqlite3.OperationalError:
                if not alone:
                    raise
                self._db = metrics_db.open_read_only(path, "&immutable=1")

    def names(self) -> list[str]:
        """The metrics measured so far, in the order of their appearance, without the clocks."""
        with metrics_db.translate_errors(self._path):
            return [name for name in metrics_db.column_names(self._db) if name != "id" and name not in CLOCK_COLUMNS]

    def read(self, names: Iterable[str] | None = None, clock: str = "vec_steps") -> dict[str, np.ndarray]:
        """The clock and the named metrics (default: all) as float64 columns; NaN also where not measured."""
        selected = [clock, *(self.names() if names is None else names)]
        rows = list(self._select(selected))
        columns = {name: [metrics_db.decode_cell(row[i]) for row in rows] for i, name in enumerate(selected)}
        return {name: np.array(cells, np.float64) for name, cells in columns.items()}

    def series(self, name: str, clock: str = "vec_steps") -> tuple[np.ndarray, np.ndarray]:
        """Clock and values of one metric where it was measured: a NaN here is a measured NaN."""
        points = [
            (metrics_db.decode_cell(at), metrics_db.decode_cell(value))
            for at, value in self._select([clock, name])
            if value is not None
        ]
        columns = np.array(points, np.float64).reshape(-1, 2)
        return columns[:, 0], columns[:, 1]

    def row(self, update: int) -> dict[str, float]:
        """The row of one update, clocks first."""
        row = metrics_db.read_row(self._db, self._path, [*CLOCK_COLUMNS, *self.names()], "WHERE id = ?", update)
        if row is None:
            raise KeyError(f"no metric row for update {update}")
        return row

    def last(self) -> dict[str, float]:
        """The newest row; {} if there is none."""
        return metrics_db.newest_row(self._db, self._path, [*CLOCK_COLUMNS, *self.names()])

    def histogram_names(self) -> list[str]:
        """The names of the histograms taken so far."""
        with metrics_db.translate_errors(self._path):
            return metrics_db.histogram_names(self._db)

    def histogram(self, name: str, clock: str = "vec_steps") -> Histograms:
        """One histogram over time: clock, edges and counts."""
        if clock not in CLOCK_COLUMNS:
            raise UserError(f"unknown clock '{clock}': {suggestion(clock, CLOCK_COLUMNS)}")
        known = self.histogram_names()
        if name not in known:
            raise UserError(f"unknown histogram '{name}': {suggestion(name, known)}")
        with metrics_db.translate_errors(self._path):
            return metrics_db.read_histograms(self._db, name, clock)

    def to_csv(self, path: Path) -> int:
        """Export all rows, clocks first, and return how many. Floats are exact, NaN is `nan`, not measured is empty."""
        names = [*CLOCK_COLUMNS, *self.names()]
        count = 0
        with files.atomic(path) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
            out = csv.writer(text, lineterminator="\n")
            out.writerow(names)
            for row in self._select(names):
                out.writerow(row)  # floats are written by repr, which is exact
                count += 1
            text.detach()  # flushes; `atomic` closes the file
        return count

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _select(self, names: list[str]) -> Iterator[tuple[Cell, ...]]:
        known = {*CLOCK_COLUMNS, *self.names()}
        for name in names:
            if name not in known:
                raise UserError(f"unknown metric '{name}': {suggestion(name, known)}")
        columns = ",".join(map(metrics_db.quote_name, names))
        with metrics_db.translate_errors(self._path):
            yield from self._db.execute(f"SELECT {columns} FROM updates ORDER BY id")  # noqa: S608


class CurveReader(MetricsReader):
    """Reads downsampled curves, totals and buckets."""

    def curves(self, names: Sequence[str], axis: str = "vec_steps", points: int = 400) -> dict[str, Curve]:
        """The named metrics over a clock, empty where never measured.

        Beyond some thousand rows this is an even sample, which may miss a single spike; metrics that are measured
        rarely, such as evaluations, are always read whole.
        """
        if axis not in CLOCKS:
            raise UserError(f"unknown axis '{axis}': {suggestion(axis, CLOCKS)}")
        columns = self._columns([axis, *dict.fromkeys(names)])
        return {name: make_curve(name, axis, *columns[name], points) for name in names}

    def totals(self, names: Sequence[str]) -> dict[str, float]:
        """The sum of each metric over all rows; 0 where it was never measured."""
        known = [name for name in names if name in self.names()]
        if not known:
            return dict.fromkeys(names, 0.0)
        sums = ",".join(f"TOTAL({_finite_cell(name)})" for name in known)
        with metrics_db.translate_errors(self._path):
            found = self._db.execute(f"SELECT {sums} FROM updates").fetchone()  # noqa: S608
        return dict.fromkeys(names, 0.0) | dict(zip(known, map(float, found), strict=True))

    def first(self, name: str) -> float:
        """The first finite value of a metric; NaN if there is none."""
        if name not in self.names():
            return float("nan")
        query = f"SELECT {_finite_cell(name)} AS value FROM updates WHERE value IS NOT NULL ORDER BY id LIMIT 1"  # noqa: S608
        with metrics_db.translate_errors(self._path):
            found = self._db.execute(query).fetchone()
        return float("nan") if found is None else float(found[0])

    def _columns(self, requested: list[str]) -> dict[str, Columns]:
        """Clock and values of each metric where it was measured."""
        known = {*CLOCK_COLUMNS, *self.names()}
        names = [name for name in requested if name in known]
        limit = max(_MIN_ROWS, _MAX_CELLS // len(names))
        sampled = self._span() > limit
        rows = self._sampled(names, limit) if sampled else list(self._select(names))
        found = {name: _measured_cells(rows, place) for place, name in enumerate(names)}
        if sampled:
            sparse = [name for name in names[1:] if len(found[name][0]) < _SPARSE * len(rows)]
            found |= self.measured(names[0], sparse)
        empty = np.empty(0)
        return {name: found.get(name, (empty, empty)) for name in requested}

    def _span(self) -> int:
        """An upper bound of the number of rows; counting them would read them all."""
        with metrics_db.translate_errors(self._path):
            first, last = self._db.execute("SELECT min(id), max(id) FROM updates").fetchone()
        return 0 if first is None else last - first + 1

    def _sampled(self, names: list[str], limit: int) -> list[tuple[Cell, ...]]:
        """About `limit` rows, evenly by update and including the last; the other rows are not read."""
        query = metrics_db.evenly_spaced_query(",".join(["id", *map(metrics_db.quote_name, names)]))
        with metrics_db.translate_errors(self._path):
            rows = self._db.execute(query, {"last": limit - 1}).fetchall()
        return [row[1:] for row, before in zip(rows, [(None,), *rows], strict=False) if row[0] != before[0]]

    def measured(self, axis: str, names: Sequence[str]) -> dict[str, Columns]:
        """Clock and values of metrics in every row that has one of them: not for dense metrics."""
        if not names:
            return {}
        columns = ",".join(map(metrics_db.quote_name, [axis, *names]))
        where = " OR ".join(f"{metrics_db.quote_name(name)} IS NOT NULL" for name in names)
        with metrics_db.translate_errors(self._path):
            query = f"SELECT {columns} FROM updates WHERE {where} ORDER BY id"  # noqa: S608
            rows = self._db.execute(query).fetchall()
        return {name: _measured_cells(rows, place) for place, name in enumerate(names, 1)}

    def newest(self) -> int:
        """The newest update that has a row; 0 if there is none."""
        with metrics_db.translate_errors(self._path):
            return int(self._db.execute("SELECT max(id) FROM updates").fetchone()[0] or 0)

    def buckets(self, names: Sequence[str], width: int, first: int) -> Buckets:
        """Metrics in buckets of `width` updates, from bucket `first` on; unknown names give NaN."""
        known = set(self.names())
        here = [name for name in names if name in known]
        rows = self._folded(here, width, first, checked=False)
        if any(not _is_finite(cell) for row in rows for cell in row):  # NaN or infinities: rare, and slower to skip
            rows = self._folded(here, width, first, checked=True)
        cells = np.array(rows, np.float64).reshape(len(rows), 1 + len(CLOCKS) + 3 * len(here))
        start = 1 + len(CLOCKS)
        values = {name: cells[:, start + 3 * i : start + 3 * i + 3] for i, name in enumerate(here)}
        missing = np.full((len(rows), 3), np.nan)
        return Buckets(
            cells[:, 0].astype(np.int64),
            {axis: cells[:, 1 + i] for i, axis in enumerate(CLOCKS)},
            {name: values.get(name, missing) for name in names},
        )

    def sample(self, names: Sequence[str], count: int) -> Buckets:
        """About `count` single rows, evenly by update: a quick preview of a long run."""
        known = set(self.names())
        here = [name for name in names if name in known]
        columns = ", ".join(["id", *CLOCKS, *map(_finite_cell, here)])
        query = metrics_db.evenly_spaced_query(columns)
        with metrics_db.translate_errors(self._path):
            rows = self._db.execute(query, {"last": count - 1}).fetchall()
        cells = np.array(rows, np.float64).reshape(len(rows), 1 + len(CLOCKS) + len(here))
        start = 1 + len(CLOCKS)
        values = {name: np.repeat(cells[:, start + i, None], 3, 1) for i, name in enumerate(here)}
        return Buckets(cells[:, 0].astype(np.int64), {a: cells[:, 1 + i] for i, a in enumerate(CLOCKS)}, values)

    def _folded(self, names: Sequence[str], width: int, first: int, *, checked: bool) -> list[tuple[Cell, ...]]:
        columns = [_finite_cell(name) if checked else metrics_db.quote_name(name) for name in names]
        parts = ", ".join(["id / :width AS bucket", *(f"max({axis})" for axis in CLOCKS), *map(_aggregates, columns)])
        query = f"SELECT {parts} FROM updates WHERE id >= :start GROUP BY bucket ORDER BY bucket"  # noqa: S608
        with metrics_db.translate_errors(self._path):
            return self._db.execute(query, {"width": width, "start": width * first}).fetchall()


class StoredRow(NamedTuple):
    """The row of one update, without what was not measured."""

    clock: Clock
    metrics: dict[str, float]


def rows_after(path: Path, update: int, upto: int = _NO_END, limit: int = 256, *, settled: bool) -> list[StoredRow]:
    """At most `limit` committed rows after an update, oldest first. The file is closed again at once.

    `settled` leaves out the newest row, to which values may still be added.
    """
    metrics_db.refuse_links(path)
    with metrics_db.translate_errors(path), closing(metrics_db.open_read_only(path)) as db:
        names = [name for name in metrics_db.column_names(db) if name != "id"]
        places = [(place, name) for place, name in enumerate(names) if name not in Clock._fields]
        clocks = [names.index(name) for name in Clock._fields]
        query = (
            f"SELECT {','.join(map(metrics_db.quote_name, names))} FROM updates "  # noqa: S608 - quoted column names
            "WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        )
        newest = db.execute("SELECT max(id) FROM updates").fetchone()[0] or 0
        found = db.execute(query, (update, min(upto, newest - settled), limit)).fetchall()
    return [
        StoredRow(Clock(*(cells[place] for place in clocks)), dict(_metrics_of_row(places, cells))) for cells in found
    ]


def _metrics_of_row(places: list[tuple[int, str]], cells: tuple[Cell, ...]) -> Iterator[tuple[str, float]]:
    for place, name in places:
        value = cells[place]
        if isinstance(value, int | float) or value == "nan":
            yield name, metrics_db.decode_cell(value)


def update_at(path: Path, vec_steps: int) -> int:
    """The last stored update up to a step; 0 if there is none."""
    metrics_db.refuse_links(path)
    with metrics_db.translate_errors(path), closing(metrics_db.open_read_only(path)) as db:
        found = db.execute("SELECT max(id) FROM updates WHERE vec_steps <= ?", (vec_steps,)).fetchone()
    return int(found[0] or 0)


def _measured_cells(rows: Sequence[tuple[Cell, ...]], place: int) -> Columns:
    pairs = [(row[0], row[place]) for row in rows if row[place] is not None]
    try:
        both = np.array(pairs, np.float64)  # reads the text 'nan' too
    except ValueError:  # `decode_cell` names the invalid value
        both = np.array(
            [(metrics_db.decode_cell(at), metrics_db.decode_cell(value)) for at, value in pairs], np.float64
        )
    both = both.reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _aggregates(column: str) -> str:
    return f"avg({column}), min({column}), max({column})"


def _finite_cell(name: str) -> str:
    column = metrics_db.quote_name(name)
    return f"CASE WHEN typeof({column}) = 'real' AND abs({column}) < 9e999 THEN {column} END"


def _is_finite(cell: Cell) -> bool:
    return cell is None or (isinstance(cell, int | float) and -1e308 < cell < 1e308)
