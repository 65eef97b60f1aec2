"""Run page: header with buttons, and panels in tabs that are polled for changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from nicegui import ui

from gymlab.core.errors import GymlabError, UserError
from gymlab.web.live_updates import LiveRun, metrics_stamp
from gymlab.web.page_frame import frame
from gymlab.web.pages import Site
from gymlab.web.panels import RunPanel
from gymlab.web.panels.alerts import AlertsPanel
from gymlab.web.panels.histograms import DistributionsPanel
from gymlab.web.panels.log_and_report import LogPanel, ReportPanel
from gymlab.web.panels.metrics import MetricsPanel
from gymlab.web.panels.overview import OverviewPanel
from gymlab.web.panels.review import ReviewPanel
from gymlab.web.panels.run_header import RunHeader
from gymlab.web.panels.settings import SettingsPanel
from gymlab.web.panels.state import StatePanel

if TYPE_CHECKING:
    from fastapi import FastAPI

_POLL_SECONDS = 0.3
_RECHECK_POLLS = 15  # polls: a killed run changes no file
PANELS: dict[str, Callable[[LiveRun], RunPanel]] = {
    "Charts": MetricsPanel,
    "Histograms": DistributionsPanel,
    "Alerts": AlertsPanel,
    "Overview": OverviewPanel,
    "Settings": SettingsPanel,
    "State": StatePanel,
    "Log": LogPanel,
    "Report": ReportPanel,
    "Review": ReviewPanel,
}


def register(site: Site, front: FastAPI) -> None:
    """The page of one run."""
    del front

    @ui.page("/run/{run_id}")
    async def page(run_id: str, tab: str = "Charts") -> None:
        try:
            paths = site.run(run_id)
        except UserError as error:
            with frame(site, "No such run"):
                ui.label(str(error)[:300])
            return
        view = LiveRun(paths, site.series.of(paths))
        with frame(site, paths.run_id):
            await RunPage(view).build(tab if tab in PANELS else "Charts")


class RunPage:
    """The tabs, and the timer that refreshes the visible one."""

    def __init__(self, view: LiveRun) -> None:
        self._view = view
        self._head = RunHeader(view)
        self._panels: dict[str, RunPanel] = {}
        self._places: dict[str, ui.tab_panel] = {}
        self._seen: dict[str, object] = {}
        self._polls = 0
        self._busy = False

    async def build(self, first: str) -> None:
        self._head.build()
        with (
            ui.tabs(on_change=self._turned)
            .props("dense align=left no-caps outside-arrows mobile-arrows")
            .classes("w-full") as tabs
        ):
            for name in PANELS:
                ui.tab(name)
        self._tabs = tabs
        with ui.tab_panels(tabs, value=first, animated=False, keep_alive=True).classes("w-full bg-transparent"):
            for name in PANELS:
                self._places[name] = ui.tab_panel(name).classes("p-0")
        ui.timer(_POLL_SECONDS, self._poll)

    async def _turned(self) -> None:
        await self._poll()

    async def _poll(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            await self._show(str(self._tabs.value))
        finally:
            self._busy = False

    async def _show(self, name: str) -> None:
        self._polls += 1
        now = self._view.stamp(), metrics_stamp(self._view.paths)
        if self._seen.get("head") != now or self._polls % _RECHECK_POLLS == 0:
            self._seen["head"] = now
            self._head.refresh()
        if name in PANELS and name not in self._panels:
            with self._places[name]:
                self._panels[name] = PANELS[name](self._view)
                self._panels[name].build()
        if name in self._panels and self._seen.get(name) != now and self._view.paths.exists:
            self._seen[name] = now
            with contextlib.suppress(GymlabError, FileNotFoundError):  # removed, or damaged: the head says so
                await self._panels[name].refresh()
