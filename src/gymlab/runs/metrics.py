"""`metrics.db`: one wide SQLite row per update, one column per metric; histograms in a table beside it.

A number is stored as it is, infinities too. SQLite has no NaN, so NaN is the text 'nan'; NULL means not measured.
(-0.0 comes back as 0.0, which is equal to it.)
"""

from __future__ import annotations

import contextlib
import csv
import io
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Self

import numpy as np

from gymlab.core.errors import RunError, UserError, suggestion
from gymlab.core.types import Histogram
from gymlab.runs import files, histograms
from gymlab.runs import metrics_table as table
from gymlab.runs.failpoints import failpoint
from gymlab.runs.histograms import Histograms
from gymlab.runs.metrics_table import Cell

CLOCK_COLUMNS = ("updates", "vec_steps", "env_steps", "episodes", "seconds")
_MAX_PENDING = 1024
_COMMIT_SECONDS = 1.0
_MAX_COLUMNS = 1990  # SQLite's own limit is 2000


class MetricsWriter:
    """The one writer of a run's metrics. Rows wait in memory until `commit`, or for about a second."""

    def __init__(self, path: Path) -> None:
        with table.told(path):
            self._db = table.open_for_writing(path)
            stored = table.columns(self._db)
        self._path = path
        self._place = {name: place for place, name in enumerate(stored)}
        self._stored = len(stored)  # columns beyond this are still to be added to the table
        self._shapes: dict[tuple[str, ...], list[int]] = {}
        self._pending: dict[int, list[Cell]] = {}
        self._amended: dict[int, dict[str, Cell]] = {}
        self._histograms: dict[int, Mapping[str, Histogram]] = {}
        self._last_commit = time.monotonic()

    def append(self, rows: Iterable[Mapping[str, float | None]]) -> None:
        """Add rows, each with all five clocks (`updates` names the row) and any metrics; None: not measured."""
        for row in rows:
            places = self._places(tuple(row))
            cells: list[Cell] = [None] * len(self._place)
            for place, value in zip(places, row.values(), strict=True):
                cells[place] = value if type(value) is float and value == value else table.cell(value)  # noqa: PLR0124
            update = cells[0] = int(cells[1])  # type: ignore[arg-type]
            if update in self._pending:
                raise ValueError(f"update {update} has a metric row already")
            self._pending[update] = cells
        if len(self._pending) >= _MAX_PENDING or time.monotonic() - self._last_commit > _COMMIT_SECONDS:
            self.commit()

    def amend(self, update: int, values: Mapping[str, float | None]) -> None:
        """Set values of a row that was appended before, committed or not."""
        self._places(tuple(values))
        cells = self._pending.get(update)
        if cells is None:
            if self._db.execute("SELECT 1 FROM updates WHERE id = ?", (update,)).fetchone() is None:
                raise KeyError(f"no metric row for update {update}")
            self._amended.setdefault(update, {}).update({name: table.cell(value) for name, value in values.items()})
            return
        cells.extend([None] * (len(self._place) - len(cells)))
        for name, value in values.items():
            cells[self._place[name]] = table.cell(value)

    def add_histograms(self, update: int, found: Mapping[str, Histogram]) -> None:
        """The histograms of a row that was appended before; committed with it."""
        self._histograms[update] = found

    def commit(self) -> None:
        """Make everything so far durable and visible to readers."""
        self._last_commit = time.monotonic()
        if not self._pending and not self._amended and not self._histograms:
            return
        failpoint("before_commit")
        with table.told(self._path), self._transaction():
            if new := list(self._place)[self._stored :]:
                table.widen(self._db, new)
            failpoint("after_columns")
            width = len(self._place)
            rows = [cells + [None] * (width - len(cells)) for cells in self._pending.values()]
            marks = ",".join("?" * width)
            self._db.executemany(f"INSERT INTO updates ({self._names()}) VALUES ({marks})", rows)  # noqa: S608
            failpoint("mid_commit")
            for update, values in self._amended.items():
                pairs = ",".join(f"{table.quote(name)} = ?" for name in values)
                self._db.execute(f"UPDATE updates SET {pairs} WHERE id = ?", (*values.values(), update))  # noqa: S608
            histograms.insert(self._db, self._histograms)
        self._stored = len(self._place)
        self._pending.clear()
        self._amended.clear()
        self._histograms.clear()
        failpoint("after_commit")

    def last(self) -> dict[str, float]:
        """The newest row that was committed; {} when there is none yet."""
        return _newest(self._db, self._path, list(self._place)[1 : self._stored])

    def cut_after(self, update: int) -> None:
        """Forget every row after `update`, and its histograms: a resumed run writes them again."""
        self._pending = {key: cells for key, cells in self._pending.items() if key <= update}
        self._amended = {key: values for key, values in self._amended.items() if key <= update}
        self._histograms = {key: found for key, found in self._histograms.items() if key <= update}
        self.commit()
        with table.told(self._path), self._transaction():
            self._db.execute("DELETE FROM updates WHERE id > ?", (update,))
            histograms.cut_after(self._db, update)

    def close(self) -> None:
        """Commit, and leave one self-contained file that can be read from a read-only folder."""
        try:
            self.commit()
            with contextlib.suppress(sqlite3.OperationalError):  # a reader is there: the WAL files stay
                self._db.execute("PRAGMA busy_timeout=0")
                self._db.execute("PRAGMA journal_mode=DELETE")
        finally:
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _places(self, names: tuple[str, ...]) -> list[int]:
        """Where these metrics stand in a row; rows come in few shapes, so the answer is kept."""
        places = self._shapes.get(names)
        if places is None:
            for name in names:
                self._make_room(name)
            places = self._shapes[names] = [self._place[name] for name in names]
        return places

    def _make_room(self, name: str) -> None:
        if name in self._place:
            return
        if not name or name.lower() in {known.lower() for known in self._place}:
            raise ValueError(f"metric name {name!r} is empty or differs from another only in case")
        if len(self._place) >= _MAX_COLUMNS:
            raise RunError(f"more than {_MAX_COLUMNS} metrics in one run: log fewer per-feature statistics")
        self._place[name] = len(self._place)

    def _names(self) -> str:
        return ",".join(map(table.quote, self._place))


class MetricsReader:
    """Reads a run's metrics, also while it is being written. Opens the file read-only."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise RunError(f"no metrics at {path}")
        table.refuse_links(path)
        # In a folder we may not write to, SQLite cannot make its WAL files; without one there is nothing to coordinate.
        alone = not path.with_name(path.name + "-wal").exists()
        self._path = path
        with table.told(path):
            try:
                self._db = table.open_read_only(path)
            except sqlite3.OperationalError:
                if not alone:
                    raise
                self._db = table.open_read_only(path, "&immutable=1")

    def names(self) -> list[str]:
        """The metrics measured so far, in the order in which they appeared; the clocks aside."""
        with table.told(self._path):
            return [name for name in table.columns(self._db) if name != "id" and name not in CLOCK_COLUMNS]

    def read(
        self, names: Iterable[str] | None = None, clock: str = "vec_steps", max_points: int | None = None
    ) -> dict[str, np.ndarray]:
        """The clock and the named metrics (default: all) as float64 columns; NaN also where not measured.

        `max_points` thins dense metrics evenly and keeps every row of sparse ones, such as evaluations.
        """
        wanted = [clock, *(self.names() if names is None else names)]
        rows = list(self._select(wanted))
        if max_points is not None:
            rows = [rows[place] for place in table.thinned(rows, max(max_points, 2))]
        return {name: np.array([table.number(row[i]) for row in rows], np.float64) for i, name in enumerate(wanted)}

    def series(self, name: str, clock: str = "vec_steps") -> tuple[np.ndarray, np.ndarray]:
        """Clock and values of one metric where it was measured: a NaN here is a measured NaN."""
        points = [
            (table.number(at), table.number(value)) for at, value in self._select([clock, name]) if value is not None
        ]
        columns = np.array(points, np.float64).reshape(-1, 2)
        return columns[:, 0], columns[:, 1]

    def row(self, update: int) -> dict[str, float]:
        """What was measured at one update, clocks first."""
        row = _one(self._db, self._path, [*CLOCK_COLUMNS, *self.names()], "WHERE id = ?", update)
        if row is None:
            raise KeyError(f"no metric row for update {update}")
        return row

    def last(self) -> dict[str, float]:
        """The newest row; {} when there is none yet."""
        return _newest(self._db, self._path, [*CLOCK_COLUMNS, *self.names()])

    def histogram_names(self) -> list[str]:
        """The histograms taken so far."""
        with table.told(self._path):
            return histograms.names(self._db)

    def histogram(self, name: str, clock: str = "vec_steps") -> Histograms:
        """One histogram over time: clock, edges and counts, a row for each time it was taken."""
        if clock not in CLOCK_COLUMNS:
            raise UserError(f"unknown clock '{clock}': {suggestion(clock, CLOCK_COLUMNS)}")
        known = self.histogram_names()
        if name not in known:
            raise UserError(f"unknown histogram '{name}': {suggestion(name, known)}")
        with table.told(self._path):
            return histograms.read(self._db, name, clock)

    def to_csv(self, path: Path) -> int:
        """Write all rows, clocks first: every number reads back equal, NaN is `nan`, not measured is empty."""
        names = [*CLOCK_COLUMNS, *self.names()]
        count = 0
        with files.atomic(path) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
            out = csv.writer(text, lineterminator="\n")
            out.writerow(names)
            for row in self._select(names):
                out.writerow(row)  # floats are written by repr, which is exact
                count += 1
            text.detach()  # which flushes, and leaves closing to `atomic`
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
        with table.told(self._path):
            yield from self._db.execute(f"SELECT {','.join(map(table.quote, names))} FROM updates ORDER BY id")  # noqa: S608


def _newest(db: sqlite3.Connection, path: Path, names: list[str]) -> dict[str, float]:
    return _one(db, path, names, "ORDER BY id DESC LIMIT 1") or {}


def _one(db: sqlite3.Connection, path: Path, names: list[str], where: str, *arguments: int) -> dict[str, float] | None:
    """What was measured in one row; None where there is no such row."""
    with table.told(path):
        query = f"SELECT {','.join(map(table.quote, names))} FROM updates {where}"  # noqa: S608
        found = db.execute(query, arguments).fetchone()
    if found is None:
        return None
    return {name: table.number(value) for name, value in zip(names, found, strict=True) if value is not None}


def copy_metrics(source: Path, target: Path) -> None:
    """The rows of one run as the beginning of another's; the source may be open elsewhere."""
    with closing(table.open_read_only(source)) as old, closing(table.open_for_writing(target)) as new:
        old.backup(new)
