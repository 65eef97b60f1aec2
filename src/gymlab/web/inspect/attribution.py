"""Attribution (saliency) card: gradients of the decision and of the value with respect to the observation."""

from __future__ import annotations

import asyncio

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.web.inspect.step_cards import cell, table
from gymlab.web.inspect.view_state import InspectorState
from gymlab.web.workers.answers import AttributionAnswer
from gymlab.web.workers.step_table import value_at


class AttributionCard:
    """Computed on demand: it takes a backward pass."""

    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        with ui.column().classes("gl-card gap-1").style("flex: 1 1 320px"):
            ui.label("What mattered?").classes("font-semibold")
            ui.label("how much the decision and the value change with each number seen").classes("gl-faint")
            ui.button("Compute", icon="bolt", on_click=self._asked).props("flat dense no-caps")
            self._shown = ui.html("", sanitize=False).classes("w-full").props("data-part=attribution")
            self._picture = ui.element("img").props('alt="what mattered, in red"').props("data-part=heat")
            self._picture.style("max-width: 100%; image-rendering: pixelated")
        self._picture.set_visibility(False)
        looking.on_step(self._clear)

    async def _asked(self) -> None:
        row = self._state.row
        shown = self._state.table
        if row is None or shown is None:
            return
        try:
            answer = await asyncio.wrap_future(self._state.inspector.attribution(shown.name, row["step"]))
        except GymlabError as error:
            ui.notify(str(error), type="warning")
            return
        if self._state.row is not row:
            return
        self._shown.set_content(self._table(answer))
        if answer["picture"]:
            self._picture.props["src"] = self._state.file(answer["picture"])
            self._picture.update()
            self._picture.set_visibility(True)

    def _table(self, answer: AttributionAnswer) -> str:
        rows = []
        for part in self._state.facts["components"]:
            if part["kind"] != "number":
                continue
            both = [value_at(answer[name], part["path"]) for name in ("policy", "value")]
            path = ".".join(map(str, part["path"]))
            cells = [cell(both[0], f"gradient.{path}"), cell(both[1], f"value-gradient.{path}")]
            name = part["name"] if part["back"] is None else f"{part['name']} (-{part['back']})"
            rows.append((name, cells))
        return table(rows, ["gradient of", "the decision", "the value"]) if rows else ""

    def _clear(self) -> None:
        self._shown.set_content("")
        self._picture.set_visibility(False)
