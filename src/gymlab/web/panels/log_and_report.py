"""The tail of the log, and the report."""

from __future__ import annotations

from asyncio import to_thread

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.runs import files
from gymlab.runs.logs import tail
from gymlab.web.live_updates import LiveRun, Stamp, plain_text, stamp

_LINES = 200
_LONGEST_REPORT = 200_000


class LogPanel:
    def __init__(self, view: LiveRun) -> None:
        self._view = view
        self._seen: Stamp = ()

    def build(self) -> None:
        with ui.scroll_area().classes("w-full").style("height: 65vh") as self._area:
            self._text = ui.label().classes("gl-mono")

    async def refresh(self) -> None:
        now = stamp(self._view.paths.log)
        if now == self._seen:
            return
        self._seen = now
        lines = await to_thread(tail, self._view.paths, _LINES)
        self._text.set_text("\n".join(line[:1000] for line in lines) or "No log yet.")
        self._area.scroll_to(percent=1.0)


class ReportPanel:
    """The report as plain text: content of a run is never rendered as markup."""

    def __init__(self, view: LiveRun) -> None:
        self._view = view

    def build(self) -> None:
        self._text = ui.label().classes("gl-mono")

    async def refresh(self) -> None:
        self._text.set_text(await to_thread(self._read))

    def _read(self) -> str:
        paths = self._view.paths
        try:
            raw = files.read_bytes(paths.inside(paths.report), _LONGEST_REPORT)
        except (OSError, GymlabError):
            return "The report is written when the run ends: gymlab report " + paths.run_id
        return plain_text(raw.decode(errors="replace"), _LONGEST_REPORT)
