"""Alerts of a run: timeline, evidence and advice."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import ui

from gymlab.alerts.engine import Alert
from gymlab.web.charts.options import Mark, time_line
from gymlab.web.live_updates import LiveRun, plain_text

COLORS = {"error": "negative", "warning": "warning", "info": "info"}


class AlertsPanel:
    def __init__(self, view: LiveRun) -> None:
        self._view = view
        self._shown: list[Alert] | None = None

    def build(self) -> None:
        self._place = ui.column().classes("w-full gap-2")

    async def refresh(self) -> None:
        """Rebuilt when the alerts have changed."""
        found = self._view.alerts()
        if found == self._shown:
            return
        self._shown = found
        self._place.clear()
        with self._place:
            if not found:
                ui.label("No alerts.").classes("gl-faint")
                return
            self._time_line(found)
            for alert in found:
                _card(alert)

    def _time_line(self, found: list[Alert]) -> None:
        rows = [
            (plain_text(a.id, 60), Mark(float(a.first.env_steps), float(a.last.env_steps), str(a.severity)))
            for a in reversed(found)
        ]
        clock = self._view.status.get("clock")
        end = clock.get("env_steps") if isinstance(clock, dict) else None
        ui.label("over env_steps").classes("gl-faint")
        height = 40 + 26 * len(rows)
        ui.echart(time_line(rows, float(end or 0))).style(f"height: {height}px; width: 100%")


def _card(alert: Alert) -> None:
    with ui.element("div").classes("gl-card w-full"):
        with ui.row().classes("items-center gap-2"):
            ui.badge(plain_text(alert.severity, 20), color=COLORS.get(str(alert.severity), "grey"))
            ui.label(plain_text(alert.id, 60)).classes("font-semibold")
            ui.label(plain_text(alert.title, 200))
            if not alert.active:
                ui.badge("cleared", color="grey")
        ui.label(f"{alert.count} of {alert.judged} judged updates · {plain_text(alert.evidence, 400)}").classes(
            "gl-faint"
        )
        ui.label(plain_text(alert.advice, 1000))
        if isinstance(alert.overrides, Mapping) and alert.overrides:
            tried = " ".join(f"{plain_text(key, 80)}={plain_text(value, 80)}" for key, value in alert.overrides.items())
            ui.label(f"try: {tried}").classes("gl-mono")
