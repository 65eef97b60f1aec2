"""Compare page: curves of several runs in one chart, their scores, and the settings that differ."""

from __future__ import annotations

import contextlib
from asyncio import to_thread
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from nicegui import events, ui

from gymlab.core.clock import CLOCKS
from gymlab.core.errors import GymlabError
from gymlab.metrics.catalogue import metric, ordered
from gymlab.metrics.metric import UNBOUNDED
from gymlab.runs.metrics_reader import smooth_curve
from gymlab.runs.registry import Registry
from gymlab.web.charts.downsampled_series import RunSeries
from gymlab.web.charts.drawing import draw, empty_chart, text_of
from gymlab.web.charts.options import Look, Plot, line_chart
from gymlab.web.comparison import ComparisonTables, by_group, compare
from gymlab.web.live_updates import LiveRun, metrics_stamp
from gymlab.web.page_frame import frame
from gymlab.web.pages import Site
from gymlab.web.selected_runs import MOST_COMPARED

if TYPE_CHECKING:
    from fastapi import FastAPI

_LOOK_SECONDS = 1.0
_FIRST = "roll/return_mean"


def register(site: Site, front: FastAPI) -> None:
    """The page that compares runs."""
    del front
    site.add_link("Compare", "/compare", "compare_arrows")

    @ui.page("/compare")
    async def page(runs: str = "", metric: str = _FIRST) -> None:
        known = {str(entry["id"]): str(entry.get("name")) for entry in await to_thread(Registry(site.runs_dir).runs)}
        chosen = [run_id for run_id in dict.fromkeys(runs[:4000].split(",")) if run_id in known][:MOST_COMPARED]
        with frame(site, "Compare"):
            ComparePage(site, known, chosen or list(known)[:2], metric[:200]).build()


class ComparePage:
    def __init__(self, site: Site, known: dict[str, str], chosen: list[str], name: str) -> None:
        self._site = site
        self._known = known
        self._chosen = chosen
        self._name = name
        self._look = Look()
        self._grouped = False
        self._seen: dict[str, object] = {}
        self._views: dict[str, LiveRun] = {}

    def build(self) -> None:
        with ui.row().classes("items-center gap-3 w-full"):
            ui.select(
                {run_id: f"{run_id} · {name}"[:120] for run_id, name in self._known.items()},
                multiple=True,
                value=self._chosen,
                label="runs",
                with_input=True,
                on_change=self._choose,
            ).props("dense outlined use-chips").classes("w-full")
            self._metric = (
                ui.select([self._name], value=self._name, label="metric", with_input=True)
                .props("dense outlined")
                .classes("w-64")
            )
            self._metric.on_value_change(self._rename)
            ui.select(list(CLOCKS), value="vec_steps", label="axis", on_change=partial(self._turn, "axis")).props(
                "dense outlined"
            ).classes("w-32")
            ui.slider(min=0, max=0.3, step=0.01, value=0, on_change=partial(self._turn, "smooth")).props(
                'label aria-label="Smoothing"'
            ).classes("w-24")
            ui.switch("log", on_change=partial(self._turn, "log"))
            ui.switch("bounds", value=True, on_change=partial(self._turn, "bounds"))
            ui.switch("mean and 95 % interval by recipe", on_change=self._regroup)
        with ui.element("div").classes("gl-card w-full"):
            self._chart = empty_chart(420)
        self._notes = ui.column().classes("gap-0")
        self._scores = ui.column().classes("gl-card w-full gap-1")
        self._settings = ui.column().classes("gl-card w-full gap-1")
        ui.timer(_LOOK_SECONDS, self._check)

    async def _check(self) -> None:
        """Redraw the curves when metrics change; the tables when the selection or a status changes."""
        views = self._chosen_views()
        now = [metrics_stamp(view.paths) for view in views]
        if now != self._seen.get("curves"):
            self._seen["curves"] = now
            await self._draw(views)
        states = [(view.paths.run_id, view.status["status"]) for view in views]
        if states != self._seen.get("states"):
            self._seen["states"] = states
            self._fill(await to_thread(compare, views))

    def _chosen_views(self) -> list[LiveRun]:
        found = []
        for run_id in self._chosen:
            with contextlib.suppress(GymlabError):
                paths = self._site.run(run_id)
                found.append(self._views.setdefault(run_id, LiveRun(paths, self._site.series.of(paths))))
        return found

    async def _draw(self, views: Sequence[LiveRun]) -> None:
        series = [view.series for view in views]
        if await to_thread(_preview, series, self._name):
            draw([(self._chart, await to_thread(self._text, views))])
        await to_thread(_refresh, series, self._name)
        names = ordered({name for view in views for name in view.series.names if not metric(name).histogram})
        if names and names != self._seen.get("names"):
            self._seen["names"] = names
            self._metric.set_options(names if self._name in names else [self._name, *names], value=self._name)
        draw([(self._chart, await to_thread(self._text, views))])

    def _text(self, views: Sequence[LiveRun]) -> str:
        look = self._look
        traces = {v.paths.run_id: smooth_curve(v.series.trace(self._name, look.axis), look.smooth) for v in views}
        traces = {run_id: trace for run_id, trace in traces.items() if len(trace.x)}
        if self._grouped:
            traces = by_group(traces, self._known)
        limits = {view.limits().get(self._name, UNBOUNDED) for view in views}
        goals = {view.goal for view in views}
        goal = goals.pop() if len(goals) == 1 and metric(self._name).bounds == "return" else None
        return text_of(
            line_chart(Plot(self._name, traces, limits.pop() if len(limits) == 1 else UNBOUNDED, goal), look)
        )

    def _fill(self, found: ComparisonTables) -> None:
        self._notes.clear()
        with self._notes:
            for note in found.notes:
                ui.label(note).classes("gl-faint")
        for place, title, part in (
            (self._scores, "Scores", found.scores),
            (self._settings, "Settings that differ", found.settings),
        ):
            place.clear()
            with place:
                ui.label(title).classes("font-semibold")
                if part.rows:
                    ui.table(rows=part.rows, columns=part.columns, row_key="c0", pagination=0).props(
                        "dense flat hide-bottom"
                    ).classes("w-full")
                else:
                    ui.label("None.").classes("gl-faint")

    async def _again(self) -> None:
        self._seen.clear()
        await self._check()

    async def _choose(self, event: events.ValueChangeEventArguments[list[str] | None]) -> None:
        self._chosen = [run_id for run_id in event.value or [] if run_id in self._known][:MOST_COMPARED]
        await self._again()

    async def _rename(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        if event.value and event.value != self._name:
            self._name = str(event.value)[:200]
            self._seen.pop("curves", None)
            await self._check()

    async def _turn(self, what: str, event: events.ValueChangeEventArguments[str | float]) -> None:
        value = event.value if what != "axis" or event.value in CLOCKS else "vec_steps"
        self._look = Look(**{**vars(self._look), what: value})
        self._seen.pop("curves", None)
        await self._check()

    async def _regroup(self, event: events.ValueChangeEventArguments[bool | None]) -> None:
        self._grouped = bool(event.value)
        self._seen.pop("curves", None)
        await self._check()


def _preview(series: Sequence[RunSeries], name: str) -> bool:
    return max((one.preview([name]) for one in series), default=False)


def _refresh(series: Sequence[RunSeries], name: str) -> None:
    """Read two runs at a time: SQLite releases the GIL while it reads."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: one.refresh([name]), series))
