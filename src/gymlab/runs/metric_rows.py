"""Rows of `metrics.db` for whoever copies a run: a few at a time, in order, exactly what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from gymlab.core.clock import Clock
from gymlab.runs import metrics_table as table

_NO_END = 2**63 - 1


class StoredRow(NamedTuple):
    """What one update left in the store; what was not measured is not in it."""

    clock: Clock
    metrics: dict[str, float]


def rows_after(path: Path, update: int, upto: int = _NO_END, limit: int = 256, *, settled: bool) -> list[StoredRow]:
    """The committed rows that follow an update, oldest first. The file is open only as long as this takes.

    `settled` leaves out the newest: values are added to a row until the next one begins, and are committed with it.
    """
    table.refuse_links(path)
    with table.told(path), closing(table.open_read_only(path)) as db:
        names = [name for name in table.columns(db) if name != "id"]
        places = [(place, name) for place, name in enumerate(names) if name not in Clock._fields]
        clocks = [names.index(name) for name in Clock._fields]
        query = (
            f"SELECT {','.join(map(table.quote, names))} FROM updates "  # noqa: S608 - quoted column names
            "WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        )
        newest = db.execute("SELECT max(id) FROM updates").fetchone()[0] or 0
        found = db.execute(query, (update, min(upto, newest - settled), limit)).fetchall()
    return [StoredRow(Clock(*(cells[place] for place in clocks)), dict(_measured(places, cells))) for cells in found]


def _measured(places: list[tuple[int, str]], cells: tuple[table.Cell, ...]) -> Iterator[tuple[str, float]]:
    for place, name in places:
        value = cells[place]
        if isinstance(value, int | float) or value == "nan":
            yield name, table.number(value)


def update_at(path: Path, vec_steps: int) -> int:
    """The last update that is stored up to a step; 0 where there is none."""
    table.refuse_links(path)
    with table.told(path), closing(table.open_read_only(path)) as db:
        found = db.execute("SELECT max(id) FROM updates WHERE vec_steps <= ?", (vec_steps,)).fetchone()
    return int(found[0] or 0)
