"""Header of a run's page: recipe, status, progress, alerts, and the buttons."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from gymlab.core.clock import CLOCKS
from gymlab.core.format import format_count, format_duration
from gymlab.runs import requests
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import StatusRecord
from gymlab.web import run_commands
from gymlab.web.live_updates import LiveRun, plain_text
from gymlab.web.page_frame import show_errors
from gymlab.web.panels.alerts import COLORS

_STATUS = {
    "running": "primary",
    "finished": "positive",
    "stopped": "warning",
    "crashed": "negative",
    "failed": "negative",
}
_MOST_BADGES = 6


class RunHeader:
    def __init__(self, view: LiveRun) -> None:
        self._view = view
        self._alerts: list[str] = []

    def build(self) -> None:
        with ui.row().classes("items-center gap-2 w-full"):
            self._status = ui.badge("…")
            self._what = ui.label().classes("font-semibold")
            self._where = ui.label().classes("gl-faint")
        self._progress = ui.linear_progress(0, show_value=False).props("instant-feedback")
        self._badges = ui.row().classes("items-center gap-1")
        with ui.row().classes("items-center gap-2"):
            self._evaluate = self._button("Evaluate", "fact_check", self._do_evaluate)
            self._checkpoint = self._button("Checkpoint", "save", self._do_checkpoint)
            self._pause = self._button("Pause", "pause", self._do_pause)
            self._stop = self._button("Stop", "stop", self._do_stop)
            self._resume = self._button("Resume", "play_arrow", self._do_resume)
            ui.button("Inspect", icon="search").props(f"dense outline no-caps href=/inspect/{self._view.paths.run_id}")
        self._said = ui.label().classes("gl-mono")
        self.refresh()

    def _button(self, title: str, icon: str, act: Callable[[], Awaitable[None] | None]) -> ui.button:
        return ui.button(title, icon=icon, on_click=act).props("dense outline no-caps")

    def refresh(self) -> None:
        """Re-read status, progress and alerts."""
        view = self._view
        if not view.paths.exists:
            self._status.set_text("deleted")
            self._status.props("color=grey")
            return
        status = view.status
        running = status["status"] == "running"
        state = "paused" if running and view.paused else str(status["status"])
        self._status.set_text(state)
        self._status.props(f"color={_STATUS.get(str(status['status']), 'grey')}")
        manifest = view.manifest
        self._what.set_text(f"{plain_text(manifest.get('recipe'), 80)}, seed {plain_text(manifest.get('seed'), 20)}")
        row = self._last()
        self._where.set_text(_position(row, status))
        self._progress.set_value(round(row.get("time/progress", 0.0), 3))
        self._show_badges()
        for button in (self._checkpoint, self._pause, self._stop):
            button.set_enabled(running)
        self._pause.set_text("Resume" if running and view.paused else "Pause")
        self._resume.set_enabled(not running)

    def _last(self) -> dict[str, float]:
        series = self._view.series
        series.refresh(["time/progress", "time/sps"])
        row = {}
        for name in CLOCKS:
            trace = series.trace("time/progress", name)
            if len(trace.x):
                row[name] = float(trace.x[-1])
        for name in ("time/progress", "time/sps"):
            trace = series.trace(name, "updates")
            if len(trace.y):
                row[name] = float(trace.high[-1] if name == "time/progress" else trace.y[-1])
        return row

    def _show_badges(self) -> None:
        found = self._view.alerts()
        labels = [f"{alert.id}{alert.active}" for alert in found]
        if labels == self._alerts:
            return
        self._alerts = labels
        self._badges.clear()
        with self._badges:
            for alert in found[:_MOST_BADGES]:
                color = COLORS.get(str(alert.severity), "grey") if alert.active else "grey"
                badge = ui.badge(plain_text(alert.id, 60), color=color).props('role=status class="gl-alert"')
                with badge, ui.tooltip().props("max-width=340px"):
                    ui.label(f"{plain_text(alert.title, 200)}. {plain_text(alert.advice, 500)}")

    async def _do_evaluate(self) -> None:
        if self._view.status["status"] == "running":
            self._ask("evaluate", "The run has this policy scored; the result comes with its next evaluation")
        else:
            await self._command("evaluating …", run_commands.evaluate)

    def _do_checkpoint(self) -> None:
        self._ask("checkpoint", "The run will write a checkpoint after this update")

    def _do_pause(self) -> None:
        self._ask("resume" if self._view.paused else "pause", "")

    def _ask(self, request: requests.Request, said: str) -> None:
        with show_errors():
            requests.send_request(self._view.paths, request)
            if said:
                ui.notify(said)

    def _do_stop(self) -> None:
        with show_errors():
            run_commands.stop(self._view.paths)
            ui.notify("The run finishes its update, writes a checkpoint and ends")

    async def _do_resume(self) -> None:
        await self._command("resuming …", run_commands.resume)

    async def _command(self, before: str, act: Callable[[RunPaths], Awaitable[run_commands.CommandResult]]) -> None:
        self._said.set_text(before)
        done = await act(self._view.paths)
        self._said.set_text(done.text.strip() or f"done (exit code {done.code})")
        self.refresh()


def _position(row: dict[str, float], status: StatusRecord) -> str:
    """Clocks, speed and stop reason."""
    parts = [f"{format_count(row[name])} {name}" for name in ("vec_steps", "env_steps", "updates") if name in row]
    parts += [format_duration(row["seconds"])] if "seconds" in row else []
    parts += [f"{format_count(row['time/sps'])} steps/s"] if "time/sps" in row else []
    reason = status.get("stop_reason")
    return " · ".join(parts) + (f" · {plain_text(reason, 200)}" if reason else "")
