"""All runs of the folder: a table that can be sorted, filtered and grouped by recipe, with the buttons above it."""

from __future__ import annotations

import math
import statistics
from asyncio import to_thread
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nicegui import events, ui

from gymlab.core.types import Json
from gymlab.reports.sections import yes_or_no
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import RegistryEntry
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_record
from gymlab.web.live_updates import Stamp, plain_text, stamp
from gymlab.web.page_frame import frame
from gymlab.web.pages import Site
from gymlab.web.selected_runs import SelectedRuns

if TYPE_CHECKING:
    from fastapi import FastAPI


_POLL_SECONDS = 1.0
_RECHECK_POLLS = 5  # polls: a killed run changes no file
_NUMBER = (
    "p => p.value == null ? '' : Math.abs(p.value) >= 1e6 ? (p.value / 1e6).toPrecision(4) + 'M' "
    ": String(+(+p.value).toFixed(2))"
)
_TIME = (
    "p => p.value == null ? '' : p.value >= 3600 ? (p.value / 3600).toFixed(1) + ' h' "
    ": p.value >= 60 ? (p.value / 60).toFixed(1) + ' min' : p.value.toFixed(0) + ' s'"
)
_STATUS = {"running": "#4c8bc9", "finished": "#3fa66b", "stopped": "#d9822b", "crashed": "#c0504d", "failed": "#c0504d"}
_STYLE = "p => ({color: " + str(_STATUS) + "[p.value] || 'inherit', fontWeight: 600})"
_ALERTS = "p => p.value ? ({color: '#d9822b', fontWeight: 600}) : null"


def _column(name: str, title: str, width: int, **more: Json) -> dict[str, Json]:
    return {"field": name, "headerName": title, "width": width, **more}


_COLUMNS = [
    _column("id", "run", 250, tooltipField="id"),
    _column("status", "status", 105, **{":cellStyle": _STYLE}),
    _column("recipe", "recipe", 170),
    _column("env", "env", 135),
    _column("algorithm", "algo", 95),
    _column("score", "score", 100, type="numericColumn", filter="agNumberColumnFilter", **{":valueFormatter": _NUMBER}),
    _column("solved", "solved", 100),
    _column(
        "env_steps",
        "env steps",
        125,
        type="numericColumn",
        filter="agNumberColumnFilter",
        **{":valueFormatter": _NUMBER},
    ),
    _column(
        "seconds", "duration", 120, type="numericColumn", filter="agNumberColumnFilter", **{":valueFormatter": _TIME}
    ),
    _column("alerts", "alerts", 100, type="numericColumn", filter="agNumberColumnFilter", **{":cellStyle": _ALERTS}),
    _column("tags", "tags", 120),
    _column("note", "note", 200),
    _column("seed", "seed", 75, type="numericColumn", filter="agNumberColumnFilter"),
    _column("group", "group", 120),
    _column("created", "created", 190),
]
_GROUP_COLUMNS = [
    _column("recipe", "recipe", 220),
    *(
        _column(name, name, 100, type="numericColumn", **{":valueFormatter": _NUMBER})
        for name in ("runs", "running", "solved", "best", "mean", "std", "alerts")
    ),
    _column("newest", "newest run", 280),
]


def register(site: Site, front: FastAPI) -> None:
    """The page of all runs."""
    del front
    site.add_link("Runs", "/", "list")

    @ui.page("/")
    async def page() -> None:
        table = RunsTable(site)
        rows = await to_thread(table.rows)
        with frame(site, "Runs"):
            RunsPage(site, table, rows).build()


class RunsPage:
    """The table, its buttons and the timer that refreshes it."""

    def __init__(self, site: Site, table: RunsTable, rows: list[Row]) -> None:
        self._site = site
        self._table = table
        self._rows = rows
        self._stamp = table.stamp()
        self._polls = 0

    def build(self) -> None:
        with ui.row().classes("items-center w-full gap-2"):
            self._search = ui.input(placeholder="Filter", on_change=self._filter).props(
                'dense outlined clearable aria-label="Filter runs"'
            )
            self._grouped = ui.switch("Group by recipe", on_change=self._regroup)
            ui.space()
            self._selection = SelectedRuns(self._site, self._refresh)
        self._grid = self._make_grid(_COLUMNS, self._rows)
        self._grid.on("rowDoubleClicked", self._open, ["data"])
        self._grid.on("cellClicked", self._clicked, ["colDef.field", "data"])
        self._grid.on("selectionChanged", self._choose, [])
        self._groups = self._make_grid(_GROUP_COLUMNS, by_recipe(self._rows))
        self._groups.set_visibility(False)
        self._empty = ui.label(f"No runs in {self._site.runs_dir} yet: gymlab train CartPole-v1").classes("gl-faint")
        self._empty.set_visibility(not self._rows)
        ui.timer(_POLL_SECONDS, self._poll)

    def _make_grid(self, columns: list[dict[str, Json]], rows: list[Row]) -> ui.aggrid:
        of_runs = columns is _COLUMNS
        options: dict[str, object] = {
            "columnDefs": columns,
            "defaultColDef": {"filter": True, "sortable": True, "resizable": True, "minWidth": 60},
            "rowData": rows,
            ":getRowId": "p => p.data.id" if of_runs else "p => p.data.recipe",
            "pagination": len(rows) > 200,
            **({"rowSelection": {"mode": "multiRow", "enableClickSelection": False}} if of_runs else {}),
        }
        grid = ui.aggrid(options, auto_size_columns=False)
        return grid.classes("w-full").style("height: calc(100vh - 165px); min-height: 320px")

    async def _poll(self) -> None:
        self._polls += 1
        if self._table.stamp() != self._stamp or self._polls % _RECHECK_POLLS == 0:
            await self._refresh()

    async def _refresh(self) -> None:
        self._stamp = self._table.stamp()
        rows = await to_thread(self._table.rows)
        if rows == self._rows:
            return
        self._rows = rows
        self._empty.set_visibility(not rows)
        self._grid.run_grid_method("setGridOption", "rowData", rows)
        if self._grouped.value:
            self._groups.run_grid_method("setGridOption", "rowData", by_recipe(rows))

    def _filter(self) -> None:
        for grid in (self._grid, self._groups):
            grid.run_grid_method("setGridOption", "quickFilterText", str(self._search.value or "")[:200])

    def _regroup(self) -> None:
        self._grid.set_visibility(not self._grouped.value)
        self._groups.set_visibility(bool(self._grouped.value))
        self._groups.run_grid_method("setGridOption", "rowData", by_recipe(self._rows))

    def _open(self, event: events.GenericEventArguments) -> None:
        self._visit(event.args)

    def _clicked(self, event: events.GenericEventArguments) -> None:
        if event.args.get("colDef.field") == "id" or (event.args.get("colDef") or {}).get("field") == "id":
            self._visit(event.args)

    def _visit(self, arguments: dict[str, Any]) -> None:
        run_id = str((arguments.get("data") or {}).get("id", ""))
        if any(row["id"] == run_id for row in self._rows):
            ui.navigate.to(f"/run/{run_id}")

    async def _choose(self) -> None:
        chosen = await self._grid.get_selected_rows()
        self._selection.choose([str(row["id"]) for row in chosen])


Row = dict[str, Any]  # of a run or, grouped, of a recipe: values by column
_TEXTS = {
    "id": "id",
    "status": "status",
    "recipe": "name",
    "env": "env",
    "algorithm": "algorithm",
    "note": "note",
    "created": "created",
    "group": "group",
}
_NUMBERS = {"score": "score", "env_steps": "env_steps", "seconds": "seconds", "seed": "seed"}


class RunsTable:
    """Rows of all runs, re-read only where files changed. Used from worker threads."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._alerts: dict[str, tuple[Stamp, int]] = {}
        self._live: list[str] = []

    def stamp(self) -> Stamp:
        """Changes when a run starts, writes its status or ends."""
        root = self._site.runs_dir
        return stamp(root / "registry.json", root, *(root / run_id / "status.json" for run_id in self._live))

    def rows(self) -> list[Row]:
        """Newest first."""
        entries = Registry(self._site.runs_dir).runs()
        self._live = [str(entry["id"]) for entry in entries if entry.get("status") == "running"]
        return [self._row(entry) for entry in entries]

    def _row(self, entry: RegistryEntry) -> Row:
        tags = entry.get("tags")
        return {
            **{key: plain_text(entry.get(name), 300) for key, name in _TEXTS.items()},
            **{key: _number(entry.get(name)) for key, name in _NUMBERS.items()},
            "solved": yes_or_no(entry.get("solved"), ""),
            "tags": ", ".join(plain_text(tag, 64) for tag in tags) if isinstance(tags, list) else "",
            "alerts": self._alert_count(str(entry["id"])),
        }

    def _alert_count(self, run_id: str) -> int:
        path = RunPaths(self._site.runs_dir / run_id).alerts
        now = stamp(path)
        known = self._alerts.get(run_id)
        if known is None or known[0] != now:
            found = read_record(path).get("alerts")
            known = self._alerts[run_id] = now, len(found) if isinstance(found, list) else 0
        return known[1]


def by_recipe(rows: Sequence[Row]) -> list[Row]:
    """One row per recipe: number of runs and statistics of their scores."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["recipe"], []).append(row)
    return [_group(recipe, members) for recipe, members in groups.items()]


def _group(recipe: str, members: Sequence[Row]) -> Row:
    scores = [row["score"] for row in members if row["score"] is not None]
    return {
        "recipe": recipe,
        "runs": len(members),
        "running": sum(row["status"] == "running" for row in members),
        "solved": sum(row["solved"] == "yes" for row in members),
        "best": max(scores, default=None),
        "mean": statistics.fmean(scores) if scores else None,
        "std": statistics.stdev(scores) if len(scores) > 1 else None,
        "alerts": sum(row["alerts"] for row in members),
        "newest": members[0]["id"],
    }


def _number(value: object) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
