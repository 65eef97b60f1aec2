"""Overview of a run: result, time per phase, checkpoints, videos and the command that reproduces it."""

from __future__ import annotations

from asyncio import to_thread

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.core.format import format_bytes, format_count
from gymlab.reports import sections
from gymlab.reports.run_facts import Facts, read_facts
from gymlab.runs.checkpoints import size_in_bytes
from gymlab.runs.videos import scan
from gymlab.web.charts.options import bars
from gymlab.web.live_updates import LiveRun, Stamp, plain_text
from gymlab.web.page_frame import copy_to_clipboard
from gymlab.web.run_commands import reproduce


class OverviewPanel:
    def __init__(self, view: LiveRun) -> None:
        self._view = view
        self._films: Stamp | None = None

    def build(self) -> None:
        with ui.element("div").classes("gl-charts w-full"):
            self._result = ui.column().classes("gl-card gap-1")
            self._phases = ui.column().classes("gl-card gap-1")
            self._checkpoints = ui.column().classes("gl-card gap-1")
            with ui.column().classes("gl-card gap-1"):
                ui.label("Again").classes("font-semibold")
                self._command = ui.label().classes("gl-mono")
                with ui.row().classes("gap-1"):
                    ui.button("Copy", icon="content_copy", on_click=self._copy).props("flat dense")
                    ui.link("metrics.csv", f"/files/{self._view.paths.run_id}/metrics.csv").classes("self-center")
        self._videos = ui.element("div").classes("gl-charts w-full")

    def _copy(self) -> None:
        copy_to_clipboard(self._command.text, "The command")

    async def refresh(self) -> None:
        view = self._view
        facts = await to_thread(read_facts, view.paths, view.settings, metrics=())
        self._command.set_text(await to_thread(reproduce, view.paths))
        self._show_result(facts)
        self._show_phases(facts)
        self._show_checkpoints(facts)
        self._show_videos()

    def _show_result(self, facts: Facts) -> None:
        self._result.clear()
        with self._result:
            ui.label("Result").classes("font-semibold")
            for name, text in {**sections.result_rows(facts), **sections.score_rows(facts)}.items():
                with ui.row().classes("w-full gap-2 no-wrap"):
                    ui.label(plain_text(name, 60)).classes("gl-faint w-36 shrink-0").style("overflow-wrap: anywhere")
                    ui.label(plain_text(text, 300)).style("overflow-wrap: anywhere")

    def _show_phases(self, facts: Facts) -> None:
        self._phases.clear()
        with self._phases:
            ui.label("Time").classes("font-semibold")
            ui.echart(bars(sections.phases(facts), "s")).style("height: 200px; width: 100%")

    def _show_checkpoints(self, facts: Facts) -> None:
        index = facts.checkpoints
        self._checkpoints.clear()
        with self._checkpoints:
            ui.label("Checkpoints").classes("font-semibold")
            for steps in index["steps"]:
                names = [role for role in ("best", "last") if index[role] == str(steps)]
                size = ""
                try:
                    size = format_bytes(size_in_bytes(facts.paths.checkpoints / str(steps)))
                except (GymlabError, OSError, KeyError, TypeError, ValueError):
                    size = "damaged"
                with ui.row().classes("items-center gap-2"):
                    ui.label(f"{format_count(steps)} {index['clock']}").classes("w-32")
                    ui.label(size).classes("gl-faint")
                    for role in names:
                        ui.badge(role)

    def _show_videos(self) -> None:
        paths = self._view.paths
        clips = scan(paths)
        now = tuple(clip.env_steps for clip in clips)
        if now == self._films:
            return
        self._films = now
        self._videos.clear()
        with self._videos:
            for clip in clips:
                with ui.column().classes("gl-card gap-1"):
                    kinds = ", ".join(clip.kinds)
                    episode_return = plain_text(clip.about.get("return"), 40)
                    ui.label(f"{kinds} · {format_count(clip.env_steps)} env_steps · return {episode_return}"[:200])
                    ui.video(f"/files/{paths.run_id}/videos/{clip.path.name}").props("preload=metadata").classes(
                        "w-full"
                    )
