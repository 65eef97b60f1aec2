"""`metrics.db`, the SQLite file of a run's metrics: its tables, its connections, and how values are encoded.

One wide row per update with a column per metric, and a table of histograms with a blob each. A number is stored as it
is, infinities too. SQLite has no NaN, so NaN is the text 'nan'; NULL means not measured. (-0.0 is read back as 0.0.)
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gymlab.core.errors import RunError
from gymlab.core.types import Histogram

CLOCK_COLUMNS = ("updates", "vec_steps", "env_steps", "episodes", "seconds", "gradient_steps")
Cell = float | str | bytes | None

_HISTOGRAM_TABLE = (
    "CREATE TABLE IF NOT EXISTS histograms (id INTEGER NOT NULL, name TEXT NOT NULL, low REAL NOT NULL, "
    "high REAL NOT NULL, counts BLOB NOT NULL, PRIMARY KEY (name, id)) WITHOUT ROWID"
)
_COUNT_TYPES = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}
_MAX_BINS = 65_536

_CLOCK_DEFINITIONS = (  # the columns that every table has
    "id INTEGER PRIMARY KEY",
    "updates INTEGER NOT NULL",
    "vec_steps INTEGER NOT NULL",
    "env_steps INTEGER NOT NULL",
    "episodes INTEGER NOT NULL",
    "seconds REAL NOT NULL",
    "gradient_steps INTEGER NOT NULL",
)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode: no transaction is left open that would block readers."""
    refuse_links(path)
    with contextlib.ExitStack() as cleanup:
        db = cleanup.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
        db.execute("PRAGMA trusted_schema=OFF")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")  # a checkpoint relies on the rows committed before it
        _create(db)
        create_histogram_table(db)
        cleanup.pop_all()
    return db


def refuse_links(path: Path) -> None:
    """Refuse symbolic links, also of the WAL files: SQLite would follow them out of an untrusted run folder."""
    for ending in ("", "-wal", "-shm", "-journal"):
        if (file := path.with_name(path.name + ending)).is_symlink():
            raise RunError(f"{file} is a link: not followed")


def open_read_only(path: Path, options: str = "") -> sqlite3.Connection:
    """A read-only connection; sqlite3.OperationalError if the file cannot be opened so."""
    with contextlib.ExitStack() as cleanup:
        db = cleanup.enter_context(closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{options}", uri=True)))
        db.execute("PRAGMA trusted_schema=OFF")  # the file may be untrusted
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        cleanup.pop_all()
    return db


def column_names(db: sqlite3.Connection) -> list[str]:
    """All columns, in order; the first is `id`. One JSON row: hundreds of rows would cost a call each."""
    (names,) = db.execute("SELECT json_group_array(name) FROM pragma_table_info('updates')").fetchone()
    return [str(name) for name in json.loads(names)]


def add_columns(db: sqlite3.Connection, names: Sequence[str]) -> None:
    """Add columns, within the caller's transaction. An empty table is created anew, which is far quicker."""
    if db.execute("SELECT 1 FROM updates LIMIT 1").fetchone() is not None:
        for name in names:
            db.execute(f"ALTER TABLE updates ADD COLUMN {quote_name(name)} REAL")
        return
    known = column_names(db)[len(_CLOCK_DEFINITIONS) :]
    db.execute("DROP TABLE updates")
    _create(db, [*known, *names])


def _create(db: sqlite3.Connection, names: Sequence[str] = ()) -> None:
    definitions = ", ".join([*_CLOCK_DEFINITIONS, *(f"{quote_name(name)} REAL" for name in names)])
    db.execute(f"CREATE TABLE IF NOT EXISTS updates ({definitions})")


def quote_name(name: str) -> str:
    """A metric name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def encode_cell(value: float | None) -> Cell:
    """The stored form of a value: NaN is text, because SQLite would make it NULL."""
    if value is None:
        return None
    exact = float(value)
    return exact if exact == exact else "nan"  # noqa: PLR0124 - the quickest test for NaN


def decode_cell(value: Cell) -> float:
    """The value of a stored cell; NaN for NULL."""
    if isinstance(value, int | float):
        return value
    if value is None or value == "nan":
        return math.nan
    raise RunError(f"metrics.db holds {value!r} where a number is expected")


@contextlib.contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as RunError."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise RunError(f"metrics store {path}: {error}") from error


def newest_row(db: sqlite3.Connection, path: Path, names: list[str]) -> dict[str, float]:
    """The measured values of the newest row; {} if there is none."""
    return read_row(db, path, names, "ORDER BY id DESC LIMIT 1") or {}


def read_row(
    db: sqlite3.Connection, path: Path, names: list[str], where: str, *arguments: int
) -> dict[str, float] | None:
    """The measured values of one row; None if there is no such row."""
    with translate_errors(path):
        query = f"SELECT {','.join(map(quote_name, names))} FROM updates {where}"  # noqa: S608
        found = db.execute(query, arguments).fetchone()
    if found is None:
        return None
    return {name: decode_cell(value) for name, value in zip(names, found, strict=True) if value is not None}


def evenly_spaced_query(columns: str) -> str:
    """A query for `:last` + 1 rows evenly by update, with repetitions. Rows are found by key, others are not read."""
    return (
        "WITH RECURSIVE points(place) AS (SELECT 0 UNION ALL SELECT place + 1 FROM points WHERE place < :last), "  # noqa: S608
        "range(first, span) AS (SELECT min(id), max(id) - min(id) FROM updates) "
        f"SELECT {columns} FROM points, range JOIN updates ON id = "
        "(SELECT id FROM updates WHERE id >= first + span * place / :last ORDER BY id LIMIT 1)"
    )


def copy_metrics(source: Path, target: Path) -> None:
    """Copy all rows of a run into the new store of another; the source may be open elsewhere."""
    with closing(open_read_only(source)) as old, closing(open_for_writing(target)) as new:
        old.backup(new)


class Histograms(NamedTuple):
    """One histogram metric over time."""

    name: str
    at: np.ndarray  # (R,) the clock
    edges: np.ndarray  # (R, bins + 1)
    counts: np.ndarray  # (R, bins)

    @property
    def shares(self) -> np.ndarray:
        """(R, bins), each row adding up to 1."""
        return self.counts / np.maximum(self.counts.sum(1, keepdims=True), 1)


def create_histogram_table(db: sqlite3.Connection) -> None:
    """Create the table of histograms if it does not exist."""
    db.execute(_HISTOGRAM_TABLE)


def insert_histograms(db: sqlite3.Connection, pending: Mapping[int, Mapping[str, Histogram]]) -> None:
    """Insert histograms by update, within the caller's transaction."""
    rows = [
        (update, name, bars.low, bars.high, _pack_counts(bars.counts))
        for update, by_name in pending.items()
        for name, bars in by_name.items()
    ]
    db.executemany("INSERT OR REPLACE INTO histograms VALUES (?, ?, ?, ?, ?)", rows)


def delete_histograms_after(db: sqlite3.Connection, update: int) -> None:
    """Delete the histograms after an update, within the caller's transaction."""
    db.execute("DELETE FROM histograms WHERE id > ?", (update,))


def histogram_names(db: sqlite3.Connection) -> list[str]:
    """The names of all histograms; none in a file of a version without histograms."""
    if not _has_histograms(db):
        return []
    return [str(name) for (name,) in db.execute("SELECT DISTINCT name FROM histograms ORDER BY name")]


def read_histograms(db: sqlite3.Connection, name: str, clock: str) -> Histograms:
    """The histograms of one name with the clock of their rows; those with another number of bins are left out."""
    found: Iterable[tuple[Cell, ...]] = ()
    if _has_histograms(db):
        query = (
            f"SELECT updates.{clock}, low, high, counts FROM histograms JOIN updates ON updates.id = histograms.id "  # noqa: S608
            "WHERE name = ? ORDER BY histograms.id"
        )
        found = db.execute(query, (name,)).fetchall()
    rows = [(_edge(at), _edge(low), _edge(high), _unpack_counts(blob)) for at, low, high, blob in found]
    bins = len(rows[-1][3]) if rows else 0
    rows = [row for row in rows if len(row[3]) == bins]
    at = np.array([row[0] for row in rows], np.float64)
    edges = [np.linspace(low, high, bins + 1) for _, low, high, _ in rows]
    counts = np.array([row[3] for row in rows], np.int64).reshape(len(rows), bins)
    return Histograms(name, at, np.array(edges, np.float64).reshape(len(rows), bins + 1), counts)


def _has_histograms(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'histograms'").fetchone() is not None


def _pack_counts(counts: tuple[int, ...]) -> bytes:
    """The width in bytes, then the counts in the narrowest type that holds them."""
    width = next(width for width in _COUNT_TYPES if max(counts, default=0) < 256**width)
    return bytes([width]) + np.array(counts, _COUNT_TYPES[width]).tobytes()


def _unpack_counts(blob: Cell) -> np.ndarray:
    """The counts; RunError where a blob of an untrusted file is not a histogram."""
    if not isinstance(blob, bytes):
        raise RunError("metrics.db holds a damaged histogram")
    width = blob[0] if blob else 0
    if width not in _COUNT_TYPES or (len(blob) - 1) % width or (len(blob) - 1) // width > _MAX_BINS:
        raise RunError("metrics.db holds a damaged histogram")
    return np.frombuffer(blob, _COUNT_TYPES[width], offset=1)


def _edge(value: Cell) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise RunError(f"metrics.db holds {value!r} where a histogram edge is expected")
    return float(value)
