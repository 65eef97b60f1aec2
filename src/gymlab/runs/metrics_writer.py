"""The writer of `metrics.db`: one row per update, committed about once a second."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from gymlab.core.errors import RunError
from gymlab.core.types import Histogram
from gymlab.runs import metrics_db
from gymlab.runs.failpoints import failpoint
from gymlab.runs.metrics_db import Cell

_MAX_PENDING = 1024
_COMMIT_SECONDS = 1.0
_MAX_COLUMNS = 1990  # SQLite's own limit is 2000


class MetricsWriter:
    """The only writer of a run's metrics. Rows are buffered until `commit`, or for about a second."""

    def __init__(self, path: Path) -> None:
        with metrics_db.translate_errors(path):
            self._db = metrics_db.open_for_writing(path)
            stored = metrics_db.column_names(self._db)
        self._path = path
        self._column = {name: place for place, name in enumerate(stored)}
        self._stored = len(stored)  # columns beyond this are not in the table yet
        self._columns_by_shape: dict[tuple[str, ...], list[int]] = {}
        self._pending: dict[int, list[Cell]] = {}
        self._amended: dict[int, dict[str, Cell]] = {}
        self._histograms: dict[int, Mapping[str, Histogram]] = {}
        self._last_commit = time.monotonic()

    def append(self, rows: Iterable[Mapping[str, float | None]]) -> None:
        """Append rows, each with every clock (`updates` is the key) and any metrics; None: not measured."""
        for row in rows:
            places = self._columns_of(tuple(row))
            cells: list[Cell] = [None] * len(self._column)
            for place, value in zip(places, row.values(), strict=True):
                finite = type(value) is float and value == value  # noqa: PLR0124 - the quickest test for NaN
                cells[place] = value if finite else metrics_db.encode_cell(value)
            update = cells[0] = int(cells[1])  # type: ignore[arg-type]
            if update in self._pending:
                raise ValueError(f"update {update} has a metric row already")
            self._pending[update] = cells
        if len(self._pending) >= _MAX_PENDING or time.monotonic() - self._last_commit > _COMMIT_SECONDS:
            self.commit()

    def amend(self, update: int, values: Mapping[str, float | None]) -> None:
        """Set values of an earlier row, committed or not."""
        self._columns_of(tuple(values))
        cells = self._pending.get(update)
        if cells is None:
            if self._db.execute("SELECT 1 FROM updates WHERE id = ?", (update,)).fetchone() is None:
                raise KeyError(f"no metric row for update {update}")
            self._amended.setdefault(update, {}).update(
                {name: metrics_db.encode_cell(value) for name, value in values.items()}
            )
            return
        cells.extend([None] * (len(self._column) - len(cells)))
        for name, value in values.items():
            cells[self._column[name]] = metrics_db.encode_cell(value)

    def add_histograms(self, update: int, histograms: Mapping[str, Histogram]) -> None:
        """Add the histograms of an earlier row; they are committed with it."""
        self._histograms[update] = histograms

    def commit(self) -> None:
        """Write all buffered rows, durably and visible to readers."""
        self._last_commit = time.monotonic()
        if not self._pending and not self._amended and not self._histograms:
            return
        failpoint("before_commit")
        with metrics_db.translate_errors(self._path), self._transaction():
            if new := list(self._column)[self._stored :]:
                metrics_db.add_columns(self._db, new)
            failpoint("after_columns")
            width = len(self._column)
            rows = [cells + [None] * (width - len(cells)) for cells in self._pending.values()]
            marks = ",".join("?" * width)
            self._db.executemany(f"INSERT INTO updates ({self._names()}) VALUES ({marks})", rows)  # noqa: S608
            failpoint("mid_commit")
            for update, values in self._amended.items():
                pairs = ",".join(f"{metrics_db.quote_name(name)} = ?" for name in values)
                self._db.execute(f"UPDATE updates SET {pairs} WHERE id = ?", (*values.values(), update))  # noqa: S608
            metrics_db.insert_histograms(self._db, self._histograms)
        self._stored = len(self._column)
        self._pending.clear()
        self._amended.clear()
        self._histograms.clear()
        failpoint("after_commit")

    def last(self) -> dict[str, float]:
        """The newest committed row; {} if there is none."""
        return metrics_db.newest_row(self._db, self._path, list(self._column)[1 : self._stored])

    def cut_after(self, update: int) -> None:
        """Delete every row after `update`, and its histograms: a resumed run writes them again."""
        self._pending = {key: cells for key, cells in self._pending.items() if key <= update}
        self._amended = {key: values for key, values in self._amended.items() if key <= update}
        self._histograms = {key: found for key, found in self._histograms.items() if key <= update}
        self.commit()
        with metrics_db.translate_errors(self._path), self._transaction():
            self._db.execute("DELETE FROM updates WHERE id > ?", (update,))
            metrics_db.delete_histograms_after(self._db, update)

    def close(self) -> None:
        """Commit, and leave one self-contained file that can be read from a read-only folder."""
        try:
            self.commit()
            with contextlib.suppress(sqlite3.OperationalError):  # a reader has it open: the WAL files stay
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
        finally:
            if self._db.in_transaction:  # an error came before the commit
                self._db.execute("ROLLBACK")

    def _columns_of(self, names: tuple[str, ...]) -> list[int]:
        """The columns of these metrics, cached: rows come in few shapes."""
        places = self._columns_by_shape.get(names)
        if places is None:
            for name in names:
                self._add_column(name)
            places = self._columns_by_shape[names] = [self._column[name] for name in names]
        return places

    def _add_column(self, name: str) -> None:
        if name in self._column:
            return
        if not name or name.lower() in {known.lower() for known in self._column}:
            raise ValueError(f"metric name {name!r} is empty or differs from another only in case")
        if len(self._column) >= _MAX_COLUMNS:
            raise RunError(f"more than {_MAX_COLUMNS} metrics in one run: log fewer per-feature statistics")
        self._column[name] = len(self._column)

    def _names(self) -> str:
        return ",".join(map(metrics_db.quote_name, self._column))
