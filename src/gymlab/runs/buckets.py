"""Metrics for charts of any length: stretches of updates with their mean, lowest and highest value.

A stretch is a power of two of updates, and SQLite folds it, so a hundred thousand rows are a thousand numbers before
Python sees them, and new rows change the last stretch only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gymlab.runs import metrics_table as table
from gymlab.runs.curves import AXES
from gymlab.runs.metrics import MetricsReader

Array = np.ndarray


class Stretches(NamedTuple):
    """Some metrics over the same stretches."""

    number: Array  # (B,) which stretch: update // width
    clocks: dict[str, Array]  # (B,) each clock at the stretch's end
    values: dict[str, Array]  # (B, 3) mean, lowest, highest; NaN where nothing finite was measured


class BucketReader(MetricsReader):
    """Reads stretches of updates."""

    def newest(self) -> int:
        """The newest update that has a row; 0 where there is none."""
        with table.told(self._path):
            return int(self._db.execute("SELECT max(id) FROM updates").fetchone()[0] or 0)

    def stretches(self, names: Sequence[str], width: int, first: int) -> Stretches:
        """Metrics from the stretch with number `first` on; names that are not there come back as NaN."""
        known = set(self.names())
        here = [name for name in names if name in known]
        rows = self._folded(here, width, first, checked=False)
        if any(not _plain(cell) for row in rows for cell in row):  # NaN or infinities: rare, and dearer to leave out
            rows = self._folded(here, width, first, checked=True)
        cells = np.array(rows, np.float64).reshape(len(rows), 1 + len(AXES) + 3 * len(here))
        start = 1 + len(AXES)
        values = {name: cells[:, start + 3 * i : start + 3 * i + 3] for i, name in enumerate(here)}
        missing = np.full((len(rows), 3), np.nan)
        return Stretches(
            cells[:, 0].astype(np.int64),
            {axis: cells[:, 1 + i] for i, axis in enumerate(AXES)},
            {name: values.get(name, missing) for name in names},
        )

    def sample(self, names: Sequence[str], count: int) -> Stretches:
        """Single rows, evenly by update, found by key: a first look at a long run that misses what lies between."""
        known = set(self.names())
        here = [name for name in names if name in known]
        columns = ", ".join(["id", *AXES, *map(_checked, here)])
        query = table.spread_query(columns)
        with table.told(self._path):
            rows = self._db.execute(query, {"last": count - 1}).fetchall()
        cells = np.array(rows, np.float64).reshape(len(rows), 1 + len(AXES) + len(here))
        start = 1 + len(AXES)
        values = {name: np.repeat(cells[:, start + i, None], 3, 1) for i, name in enumerate(here)}
        return Stretches(cells[:, 0].astype(np.int64), {a: cells[:, 1 + i] for i, a in enumerate(AXES)}, values)

    def _folded(self, names: Sequence[str], width: int, first: int, *, checked: bool) -> list[tuple[Any, ...]]:
        columns = [_checked(name) if checked else table.quote(name) for name in names]
        parts = ", ".join(["id / :width AS stretch", *(f"max({axis})" for axis in AXES), *map(_three, columns)])
        query = f"SELECT {parts} FROM updates WHERE id >= :start GROUP BY stretch ORDER BY stretch"  # noqa: S608
        with table.told(self._path):
            return self._db.execute(query, {"width": width, "start": width * first}).fetchall()


def _three(column: str) -> str:
    return f"avg({column}), min({column}), max({column})"


def _checked(name: str) -> str:
    column = table.quote(name)
    return f"CASE WHEN typeof({column}) = 'real' AND abs({column}) < 9e999 THEN {column} END"


def _plain(cell: Any) -> bool:
    return cell is None or (isinstance(cell, int | float) and -1e308 < cell < 1e308)
