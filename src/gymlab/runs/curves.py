"""Metrics as curves that are quick to get: however long a run is, about the same number of cells is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gymlab.core.errors import UserError, suggestion
from gymlab.runs import metrics_table as table
from gymlab.runs.metrics import CLOCK_COLUMNS, MetricsReader
from gymlab.runs.metrics_table import Cell

AXES = ("vec_steps", "env_steps", "updates", "seconds")
_MOST_CELLS = 300_000
_FEWEST_ROWS = 4_000
Columns = tuple[np.ndarray, np.ndarray]  # clock, values
_SPARSE = 0.5  # a metric that fewer sampled rows than this have is read whole


@dataclass(frozen=True)
class Curve:
    """A metric over a clock, thinned: the mean of each stretch of rows, and the lowest and highest value in it."""

    name: str
    axis: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    not_finite: int = 0  # measured values that are no numbers, left out

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
        return Curve(name, axis, x, y, y, y, lost)
    edges = np.linspace(0, len(x), points + 1).astype(int)
    starts = edges[:-1]
    counts = np.diff(edges)
    mean_x, mean_y = (np.add.reduceat(values, starts) / counts for values in (x, y))
    mean_x[-1] = x[-1]  # a curve ends where the run does
    return Curve(name, axis, mean_x, mean_y, np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts), lost)


def smoothed(curve: Curve, share: float) -> Curve:
    """Each value replaced by the mean over a window as wide as this share of the axis."""
    if share <= 0 or len(curve) < 3:
        return curve
    half = share * (curve.x[-1] - curve.x[0]) / 2
    first = np.searchsorted(curve.x, curve.x - half, side="left")
    after = np.searchsorted(curve.x, curve.x + half, side="right")
    sums = np.concatenate([[0.0], np.cumsum(curve.y)])
    y = (sums[after] - sums[first]) / (after - first)
    return Curve(curve.name, curve.axis, curve.x, y, curve.low, curve.high, curve.not_finite)


class CurveReader(MetricsReader):
    """Reads curves and totals. Beyond some ten thousand rows it takes an even sample of them, so that a single spike
    may be missed; metrics measured now and then, such as evaluations, are always read whole.
    """

    def curves(self, names: Sequence[str], axis: str = "vec_steps", points: int = 400) -> dict[str, Curve]:
        """The named metrics over a clock; those never measured come back empty."""
        if axis not in AXES:
            raise UserError(f"unknown axis '{axis}': {suggestion(axis, AXES)}")
        columns = self._columns([axis, *dict.fromkeys(names)])
        return {name: make_curve(name, axis, *columns[name], points) for name in names}

    def totals(self, names: Sequence[str]) -> dict[str, float]:
        """The sum of each metric over all rows; 0 where it was never measured."""
        known = [name for name in names if name in self.names()]
        if not known:
            return dict.fromkeys(names, 0.0)
        sums = ",".join(f"TOTAL({_real(name)})" for name in known)
        with table.told(self._path):
            found = self._db.execute(f"SELECT {sums} FROM updates").fetchone()  # noqa: S608
        return dict.fromkeys(names, 0.0) | dict(zip(known, map(float, found), strict=True))

    def first(self, name: str) -> float:
        """The first number a metric had; NaN where it never had one."""
        if name not in self.names():
            return float("nan")
        query = f"SELECT {_real(name)} AS value FROM updates WHERE value IS NOT NULL ORDER BY id LIMIT 1"  # noqa: S608
        with table.told(self._path):
            found = self._db.execute(query).fetchone()
        return float("nan") if found is None else float(found[0])

    def _columns(self, wanted: list[str]) -> dict[str, Columns]:
        """Clock and values of each metric where it was measured."""
        known = {*CLOCK_COLUMNS, *self.names()}
        names = [name for name in wanted if name in known]
        limit = max(_FEWEST_ROWS, _MOST_CELLS // len(names))
        sampled = self._span() > limit
        rows = self._sampled(names, limit) if sampled else list(self._select(names))
        found = {name: _measured(rows, place) for place, name in enumerate(names)}
        if sampled:
            sparse = [name for name in names[1:] if len(found[name][0]) < _SPARSE * len(rows)]
            found |= self.measured(names[0], sparse)
        empty = np.empty(0)
        return {name: found.get(name, (empty, empty)) for name in wanted}

    def _span(self) -> int:
        """At least as many as there are rows; counting them would read them all."""
        with table.told(self._path):
            first, last = self._db.execute("SELECT min(id), max(id) FROM updates").fetchone()
        return 0 if first is None else last - first + 1

    def _sampled(self, names: list[str], limit: int) -> list[tuple[Cell, ...]]:
        """About `limit` rows, evenly by update, the last one among them: found by key, the others are not touched."""
        query = table.spread_query(",".join(["id", *map(table.quote, names)]))
        with table.told(self._path):
            rows = self._db.execute(query, {"last": limit - 1}).fetchall()
        return [row[1:] for row, before in zip(rows, [(None,), *rows], strict=False) if row[0] != before[0]]

    def measured(self, axis: str, names: Sequence[str]) -> dict[str, Columns]:
        """Clock and values of metrics wherever one of them was measured: all of them, so not for dense ones."""
        if not names:
            return {}
        columns = ",".join(map(table.quote, [axis, *names]))
        where = " OR ".join(f"{table.quote(name)} IS NOT NULL" for name in names)
        with table.told(self._path):
            query = f"SELECT {columns} FROM updates WHERE {where} ORDER BY id"  # noqa: S608
            rows = self._db.execute(query).fetchall()
        return {name: _measured(rows, place) for place, name in enumerate(names, 1)}


def _measured(rows: Sequence[tuple[Cell, ...]], place: int) -> Columns:
    pairs = [(row[0], row[place]) for row in rows if row[place] is not None]
    try:
        both = np.array(pairs, np.float64)  # which reads the text 'nan' too
    except ValueError:  # names the value that does not belong
        both = np.array([(table.number(at), table.number(value)) for at, value in pairs], np.float64)
    both = both.reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _real(name: str) -> str:
    column = table.quote(name)
    return f"CASE WHEN typeof({column}) = 'real' AND abs({column}) < 9e999 THEN {column} END"
