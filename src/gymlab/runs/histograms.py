"""The second table of `metrics.db`: a blob per histogram, beside the row of its update."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gymlab.core.errors import RunError
from gymlab.core.types import Histogram

_CREATE = (
    "CREATE TABLE IF NOT EXISTS histograms (id INTEGER NOT NULL, name TEXT NOT NULL, low REAL NOT NULL, "
    "high REAL NOT NULL, counts BLOB NOT NULL, PRIMARY KEY (name, id)) WITHOUT ROWID"
)
_WIDTHS = {1: "<u1", 2: "<u2", 4: "<u4", 8: "<u8"}
_MOST_BINS = 65_536


class Histograms(NamedTuple):
    """One name over time."""

    name: str
    at: np.ndarray  # (R,) the clock
    edges: np.ndarray  # (R, bins + 1)
    counts: np.ndarray  # (R, bins)

    @property
    def shares(self) -> np.ndarray:
        """(R, bins), each row adding up to 1."""
        return self.counts / np.maximum(self.counts.sum(1, keepdims=True), 1)


def create(db: sqlite3.Connection) -> None:
    """Make the table where there is none."""
    db.execute(_CREATE)


def insert(db: sqlite3.Connection, pending: Mapping[int, Mapping[str, Histogram]]) -> None:
    """Add histograms by update, within the caller's transaction."""
    rows = [
        (update, name, bars.low, bars.high, _packed(bars.counts))
        for update, by_name in pending.items()
        for name, bars in by_name.items()
    ]
    db.executemany("INSERT OR REPLACE INTO histograms VALUES (?, ?, ?, ?, ?)", rows)


def cut_after(db: sqlite3.Connection, update: int) -> None:
    """Forget those after an update, within the caller's transaction."""
    db.execute("DELETE FROM histograms WHERE id > ?", (update,))


def names(db: sqlite3.Connection) -> list[str]:
    """Which there are; none in a file from before there were any."""
    if not _there(db):
        return []
    return [str(name) for (name,) in db.execute("SELECT DISTINCT name FROM histograms ORDER BY name")]


def read(db: sqlite3.Connection, name: str, clock: str) -> Histograms:
    """All of one name with the clock of their rows (a column's name, quoted); those of other bins are left out."""
    found: Iterable[tuple[Any, ...]] = ()
    if _there(db):
        query = (
            f"SELECT updates.{clock}, low, high, counts FROM histograms JOIN updates ON updates.id = histograms.id "  # noqa: S608
            "WHERE name = ? ORDER BY histograms.id"
        )
        found = db.execute(query, (name,)).fetchall()
    rows = [(_number(at), _number(low), _number(high), _unpacked(blob)) for at, low, high, blob in found]
    bins = len(rows[-1][3]) if rows else 0
    rows = [row for row in rows if len(row[3]) == bins]
    at = np.array([row[0] for row in rows], np.float64)
    edges = [np.linspace(low, high, bins + 1) for _, low, high, _ in rows]
    counts = np.array([row[3] for row in rows], np.int64).reshape(len(rows), bins)
    return Histograms(name, at, np.array(edges, np.float64).reshape(len(rows), bins + 1), counts)


def _there(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'histograms'").fetchone() is not None


def _packed(counts: tuple[int, ...]) -> bytes:
    """The bytes per number, and the numbers, as narrow as they fit."""
    width = next(width for width in _WIDTHS if max(counts, default=0) < 256**width)
    return bytes([width]) + np.array(counts, _WIDTHS[width]).tobytes()


def _unpacked(blob: Any) -> np.ndarray:
    """The numbers; what is no histogram, in a file from strangers, is refused."""
    width = blob[0] if isinstance(blob, bytes) and blob else 0
    if width not in _WIDTHS or (len(blob) - 1) % width or (len(blob) - 1) // width > _MOST_BINS:
        raise RunError("metrics.db holds something where a histogram belongs")
    return np.frombuffer(blob, _WIDTHS[width], offset=1)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise RunError(f"metrics.db holds {value!r} where an edge of a histogram belongs")
    return float(value)
