"""What-if cards: the policy's output for an edited observation, and the episode after another action."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, cast

from nicegui import ui

from gymlab.core.errors import GymlabError
from gymlab.core.types import Json
from gymlab.web.inspect.episode_form import EpisodeForm
from gymlab.web.inspect.step_cards import cell as html_cell
from gymlab.web.inspect.step_cards import distribution, table
from gymlab.web.inspect.view_state import InspectorState
from gymlab.web.workers.answers import ActionFacts, ComponentFacts, InspectorFacts, PlayedEpisode, PolicyOutput
from gymlab.web.workers.step_table import value_at, with_value

if TYPE_CHECKING:
    from gymlab.media.episode_trace import TraceRecord


class EditedObservationCard:
    """The step's observation in fields; a change queries the policy for the edited observation."""

    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        self._fields: list[tuple[ComponentFacts, ui.number]] = []
        parts = [part for part in looking.facts["components"] if part["kind"] in ("number", "choice")]
        with ui.column().classes("gl-card gap-1").style("flex: 1 1 320px"):
            ui.label("What if it saw something else?").classes("font-semibold")
            if len(parts) != len(looking.facts["components"]):
                ui.label("pictures and long lists cannot be edited").classes("gl-faint")
                parts = []
            with ui.row().classes("gap-2 w-full"):
                for part in parts:
                    self._fields.append((part, self._field(part)))
            self._shown = ui.html("", sanitize=False).classes("w-full").props("data-part=what-if")
            if parts:
                ui.button("Reset", on_click=self._fill).props("flat dense no-caps size=sm")
        looking.on_step(self._fill)

    def _field(self, part: ComponentFacts) -> ui.number:
        back = "" if part["back"] is None else f" (-{part['back']})"
        whole = part["kind"] == "choice"
        low, high = (part["low"], part["high"]) if whole else (None, None)
        field = ui.number(
            part["name"] + back, on_change=self._asked, min=low, max=high, precision=0 if whole else None
        ).props("dense debounce=150")
        return field.classes("w-32").props(f"data-part=edit-{'.'.join(map(str, part['path'])) or 'whole'}")

    def _fill(self) -> None:
        row = self._state.row
        if row is None:
            return
        for part, field in self._fields:
            field.set_value(cast("float", value_at(row["observation"], part["path"])))
        self._shown.set_content("")

    async def _asked(self) -> None:
        row = self._state.row
        table_ = self._state.table
        if row is None or table_ is None:
            return
        observation = row["observation"]
        for part, field in self._fields:
            if field.value is None:
                return
            value = int(field.value) if part["kind"] == "choice" else float(field.value)
            observation = with_value(observation, part["path"], value)
        if observation == row["observation"]:  # also after `_fill`
            self._shown.set_content("")
            return
        try:
            asked = self._state.inspector.what_if(table_.name, row["step"], observation)
            answer = await asyncio.wrap_future(asked)
        except GymlabError as error:
            ui.notify(str(error), type="warning")
            return
        self._shown.set_content(self._answer_html(answer, row))

    def _answer_html(self, answer: PolicyOutput, row: TraceRecord) -> str:
        rows = [
            ("action", [html_cell(answer["label"], "if.label")]),
            ("value", [html_cell(answer["value"], "if.value")]),
            ("value as it was", [html_cell(row["value"])]),
            ("entropy", [html_cell(answer["entropy"], "if.entropy")]),
        ]
        return distribution(answer, self._state.facts, row["mask"]) + table(rows)


class ForcedActionCard:
    """Another action at this step: the episode is replayed up to it and continues with that action."""

    def __init__(self, looking: InspectorState, asking: EpisodeForm) -> None:
        self._state = looking
        self._form = asking
        self._answer: PlayedEpisode | None = None
        with ui.column().classes("gl-card gap-1").style("flex: 1 1 320px"):
            ui.label("What if it did something else?").classes("font-semibold")
            with ui.row().classes("items-center gap-2"):
                self._action = self._chooser()
                ui.button("Do that instead", on_click=self._force).props("dense no-caps flat")
            self._shown = ui.html("", sanitize=False).classes("w-full").props("data-part=forced")
            self._take = ui.button("Look at that episode", on_click=self._look).props("flat dense no-caps size=sm")
        self._take.set_visibility(False)
        looking.on_step(self._clear)

    def _chooser(self) -> ui.select | ui.input:
        actions = self._state.facts["actions"]
        labels = self._state.facts["labels"]
        if actions["kind"] == "choice":
            options = {place: f"{place}: {label}" for place, label in enumerate(labels)}
            return ui.select(options, value=0, label="action").props("dense").classes("w-40").props("data-part=force")
        count = actions["size"] if actions["kind"] == "numbers" else len(actions["sizes"])
        field = ui.input("action, as a list", value=json.dumps([0] * count)).props("dense")
        return field.classes("w-48").props("data-part=force")

    def _chosen(self) -> Json:
        if self._state.facts["actions"]["kind"] == "choice":
            return int(self._action.value)
        try:
            action = json.loads(self._action.value)
        except ValueError:
            action = None
        return action if _fits(action, self._state.facts["actions"]) else None

    async def _force(self) -> None:
        row = self._state.row
        action = self._chosen()
        if row is None:
            return
        if action is None:
            ui.notify("the action must be a list of numbers, one for each part, within its range", type="warning")
            return
        before = self._state.table
        answer = await self._form.play(self._form.asked({row["step"]: action}))
        if answer is None or before is None:
            return
        if self._state.table is not before or self._state.row is not row:  # another step is shown by now
            self._state.inspector.forget(answer["name"])
            return
        self._answer = answer
        self._shown.set_content(_forced_result(answer, row, before.total, self._state.facts))
        self._take.set_visibility(True)

    def _look(self) -> None:
        answer = self._answer
        self._answer = None
        if answer is not None:
            self._state.show(answer, self._state.step)

    def _clear(self) -> None:
        if self._answer is not None:
            self._state.inspector.forget(self._answer["name"])
        self._answer = None
        self._shown.set_content("")
        self._take.set_visibility(False)


def _forced_result(answer: PlayedEpisode, row: TraceRecord, total: float, facts: InspectorFacts) -> str:
    rows = answer["rows"]
    step = row["step"]
    found = [
        ("reward then", [html_cell(rows[step]["reward"], "forced.reward")]),
        ("reward as it was", [html_cell(row["reward"])]),
        ("return of the episode then", [html_cell(rows[-1]["return_so_far"], "forced.return")]),
        ("return as it was", [html_cell(total)]),
        ("steps then", [html_cell(len(rows), "forced.steps")]),
    ]
    if step + 1 >= len(rows):
        return table(found) + "<div class='gl-faint'>the episode ends there</div>"
    after = rows[step + 1]
    found.append(("value of the next state", [html_cell(after["value"], "forced.value")]))
    return table(found) + "<div class='gl-faint'>the policy next</div>" + distribution(after, facts, after["mask"])


def _fits(action: Json, actions: ActionFacts) -> bool:
    """Whether a list is an action of this kind."""
    if not isinstance(action, list) or not all(type(part) in (int, float) for part in action):
        return False
    if actions["kind"] == "numbers":
        return len(action) == actions["size"]
    sizes = actions["sizes"]
    inside = all(type(part) is int and 0 <= part < size for part, size in zip(action, sizes, strict=False))
    return len(action) == len(sizes) and inside
