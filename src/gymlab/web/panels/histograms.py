"""Histograms over time: actions, returns, logits, weights."""

from __future__ import annotations

from asyncio import to_thread

from nicegui import events, ui

from gymlab.core.errors import GymlabError
from gymlab.metrics.catalogue import ordered
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.web.charts.drawing import draw, empty_chart, text_of
from gymlab.web.charts.options import heat_map
from gymlab.web.live_updates import LiveRun, Stamp, metrics_stamp

_FIRST = ("roll/actions/hist", "roll/return_hist", "opt/logits_hist", "opt/update_hist/policy_trunk")
_MOST = 8


class DistributionsPanel:
    def __init__(self, view: LiveRun) -> None:
        self._view = view
        self._seen: Stamp = ()
        self._chosen: list[str] = []
        self._names: list[str] = []
        self._charts: list[ui.echart] = []

    def build(self) -> None:
        self._select = (
            ui.select([], multiple=True, label="histograms", on_change=self._choose)
            .props("dense outlined use-chips")
            .classes("w-full")
        )
        self._place = ui.element("div").classes("gl-charts w-full")
        self._empty = ui.label("No histograms were taken (metrics.statistics: full takes them).").classes("gl-faint")

    async def refresh(self) -> None:
        now = metrics_stamp(self._view.paths)
        if now == self._seen:
            return
        self._seen = now
        names = await to_thread(self._read_names)
        self._empty.set_visibility(not names)
        if names != self._names:
            self._names = names
            self._chosen = self._chosen or [name for name in _FIRST if name in names] or names[:4]
            self._select.set_options(names, value=self._chosen)
        await self._draw()

    async def _choose(self, event: events.ValueChangeEventArguments[list[str] | None]) -> None:
        chosen = [name for name in event.value or [] if name in self._names][:_MOST]
        if chosen != self._chosen:
            self._chosen = chosen
            await self._draw()

    async def _draw(self) -> None:
        texts = await to_thread(self._texts)
        if len(self._charts) != len(texts):
            self._place.clear()
            with self._place:
                self._charts = [_chart() for _ in texts]
        draw(list(zip(self._charts, texts, strict=True)))

    def _read_names(self) -> list[str]:
        try:
            with MetricsReader(self._view.paths.metrics) as reader:
                return ordered(reader.histogram_names())
        except GymlabError:
            return []

    def _texts(self) -> list[str]:
        try:
            with MetricsReader(self._view.paths.metrics) as reader:
                return [text_of(heat_map(reader.histogram(name), name)) for name in self._chosen]
        except GymlabError:
            return []


def _chart() -> ui.echart:
    with ui.element("div").classes("gl-card"):
        return empty_chart(260)
