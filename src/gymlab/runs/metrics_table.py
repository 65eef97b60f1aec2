"""How numbers stand in the metric table, and how its file is opened."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gymlab.core.errors import RunError
from gymlab.runs import histograms

Cell = float | str | None


_CLOCKS = (  # the columns that every table has
    "id INTEGER PRIMARY KEY",
    "updates INTEGER NOT NULL",
    "vec_steps INTEGER NOT NULL",
    "env_steps INTEGER NOT NULL",
    "episodes INTEGER NOT NULL",
    "seconds REAL NOT NULL",
)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection whose transactions are the caller's: none is left open, so readers are never kept waiting."""
    refuse_links(path)
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA trusted_schema=OFF")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")  # a checkpoint counts on the rows committed before it
        _create(db)
        histograms.create(db)
    except BaseException:
        db.close()
        raise
    return db


def refuse_links(path: Path) -> None:
    """SQLite follows links, also those of its side files: a run from strangers must not lead it elsewhere."""
    for ending in ("", "-wal", "-shm", "-journal"):
        if (file := path.with_name(path.name + ending)).is_symlink():
            raise RunError(f"{file} is a link: not followed")


def open_read_only(path: Path, options: str = "") -> sqlite3.Connection:
    """A connection that changes nothing; sqlite3.OperationalError where the file cannot be read so."""
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{options}", uri=True)
    try:
        db.execute("PRAGMA trusted_schema=OFF")  # the file may come from strangers
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def columns(db: sqlite3.Connection) -> list[str]:
    """All columns, in order; the first is `id`. In one answer: there are hundreds, and each row is a call."""
    (names,) = db.execute("SELECT json_group_array(name) FROM pragma_table_info('updates')").fetchone()
    return [str(name) for name in json.loads(names)]


def widen(db: sqlite3.Connection, names: Sequence[str]) -> None:
    """Add columns, within the caller's transaction; to an empty table all at once, which is far quicker."""
    if db.execute("SELECT 1 FROM updates LIMIT 1").fetchone() is not None:
        for name in names:
            db.execute(f"ALTER TABLE updates ADD COLUMN {quote(name)} REAL")
        return
    known = columns(db)[len(_CLOCKS) :]
    db.execute("DROP TABLE updates")
    _create(db, [*known, *names])


def _create(db: sqlite3.Connection, names: Sequence[str] = ()) -> None:
    written = ", ".join([*_CLOCKS, *(f"{quote(name)} REAL" for name in names)])
    db.execute(f"CREATE TABLE IF NOT EXISTS updates ({written})")


def quote(name: str) -> str:
    """A metric name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def cell(value: float | None) -> Cell:
    """A value as it is stored: NaN as text, for SQLite would make it NULL."""
    if value is None:
        return None
    exact = float(value)
    return exact if exact == exact else "nan"  # noqa: PLR0124 - the quickest test for NaN


def number(value: Any) -> float:
    """A stored value as it was; NaN for NULL."""
    if isinstance(value, int | float):
        return value
    if value is None or value == "nan":
        return math.nan
    raise RunError(f"metrics.db holds {value!r} where a number belongs")


def thinned(rows: list[tuple[Cell, ...]], most: int) -> list[int]:
    """Which rows to show: about `most`, evenly, and all rows of columns that are measured no more often than that."""
    if len(rows) <= most:
        return list(range(len(rows)))
    keep = {round(place) for place in np.linspace(0, len(rows) - 1, most)}
    for column in zip(*rows, strict=True):
        measured = [place for place, value in enumerate(column) if value is not None]
        if len(measured) <= most:
            keep.update(measured)
    return sorted(keep)


@contextlib.contextmanager
def told(path: Path) -> Iterator[None]:
    """SQLite's errors, as ours."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise RunError(f"metrics store {path}: {error}") from error


def spread_query(columns: str) -> str:
    """Rows evenly by update, `:last` + 1 of them with repetitions: found by key, those between are not touched."""
    return (
        "WITH RECURSIVE wanted(place) AS (SELECT 0 UNION ALL SELECT place + 1 FROM wanted WHERE place < :last), "  # noqa: S608
        "range(first, span) AS (SELECT min(id), max(id) - min(id) FROM updates) "
        f"SELECT {columns} FROM wanted, range JOIN updates ON id = "
        "(SELECT id FROM updates WHERE id >= first + span * place / :last ORDER BY id LIMIT 1)"
    )
