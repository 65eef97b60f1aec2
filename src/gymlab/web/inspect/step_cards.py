"""Cards of one step: pictures, observation with bounds, action and its distribution, reward and value; their HTML.

Everything that comes from a run is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Literal, cast

from nicegui import ui

from gymlab.core.types import Json
from gymlab.web.inspect.view_state import InspectorState
from gymlab.web.workers.answers import ComponentFacts, InspectorFacts, PolicyOutput
from gymlab.web.workers.step_table import value_at

if TYPE_CHECKING:
    from gymlab.media.episode_trace import TraceRecord

Outcome = Literal[
    "reward",
    "return_so_far",
    "train_reward",
    "return_to_go",
    "value",
    "baseline",
    "advantage",
    "gae",
    "td_error",
    "terminated",
    "truncated",
]
_OUTCOME: dict[Outcome, str] = {
    "reward": "reward",
    "return_so_far": "return so far",
    "train_reward": "reward as learning sees it",
    "return_to_go": "return from here, discounted",
    "value": "value",
    "baseline": "baseline",
    "advantage": "advantage",
    "gae": "GAE",
    "td_error": "surprise (TD error)",
    "terminated": "terminated",
    "truncated": "truncated",
}


class ObservationCard:
    """Each component by name with its bounds; a stack as a grid, one column per step back."""

    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        with ui.column().classes("gl-card gap-1").style("flex: 1.4 1 300px"):
            ui.label("ObservationCard").classes("font-semibold")
            self._shown = ui.html("", sanitize=False).classes("w-full").props("data-part=observation")
        looking.on_step(self._draw)

    def _draw(self) -> None:
        row = self._state.row
        facts = self._state.facts
        if row is None:
            return
        parts = facts["components"]
        stacked = bool(parts) and all(part["back"] is not None for part in parts)
        content = _stack(parts, row) if stacked else _list(parts, row)
        if row["raw"] is not None and facts["raw"]:
            content += '<div class="gl-faint">as the environment gives it</div>' + _list(facts["raw"], row, "raw")
        self._shown.set_content(content)


def _list(
    parts: Sequence[ComponentFacts], row: TraceRecord, column: Literal["observation", "raw"] = "observation"
) -> str:
    scaled = row["network_input"] if column == "observation" else None
    head = ["", "value", *(["normalised"] if scaled is not None else []), "from", "to"]
    rows = []
    for part in parts:
        path = part["path"]
        key = f"{column}.{'.'.join(map(str, path))}"
        cells = [cell(_at(row[column], path), key)]
        cells += [cell(_at(scaled, path), f"network_input.{'.'.join(map(str, path))}")] if scaled is not None else []
        rows.append((part["name"], [*cells, bound(part["low"]), bound(part["high"])]))
    return table(rows, head)


def _stack(parts: Sequence[ComponentFacts], row: TraceRecord) -> str:
    backs = sorted({part["back"] or 0 for part in parts}, reverse=True)
    frame = len(parts) // len(backs)
    head = ["", *("now" if back == 0 else f"-{back}" for back in backs), "from", "to"]
    rows = []
    for place in range(frame):
        own = parts[place::frame]
        cells = [cell(_at(row["observation"], p["path"]), f"observation.{p['path'][-1]}") for p in own]
        rows.append((own[0]["name"], [*cells, bound(own[0]["low"]), bound(own[0]["high"])]))
    return table(rows, head)


def _at(observation: Json, path: Sequence[str | int]) -> Json:
    """One part; a large array is named by its type."""
    return observation if isinstance(observation, str) else value_at(observation, path)


class ActionCard:
    """The action with its label, and the distribution it was chosen from."""

    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        with ui.column().classes("gl-card gap-1").style("flex: 1 1 260px"):
            self._title = ui.label("Action").classes("font-semibold").props("data-part=action")
            self._shown = ui.html("", sanitize=False).classes("w-full").props("data-part=probabilities")
        looking.on_step(self._draw)

    def _draw(self) -> None:
        row = self._state.row
        if row is None:
            return
        self._title.set_text(f"Action: {row['label']}")
        known = {"probability": row["probability"], "log_prob": row["log_prob"], "entropy": row["entropy"]}
        content = table([(name.replace("_", " "), [cell(value, name)]) for name, value in known.items()])
        self._shown.set_content(distribution(row, self._state.facts, row["mask"]) + content)


def distribution(row: TraceRecord | PolicyOutput, facts: InspectorFacts, mask: Sequence[bool] | None = None) -> str:
    """Bars for discrete actions, a table of mean and std for continuous ones."""
    labels = facts["labels"]
    parameters = row["distribution"]
    if row["probabilities"]:
        chosen = labels.index(row["label"]) if row["label"] in labels else None
        return bars(labels, row["probabilities"], chosen, mask)
    if "choices" in parameters:
        taken = cast("list[int]", row["action"])
        parts = []
        for place, shares in enumerate(parameters["choices"]):
            names = [f"{place}: {choice}" for choice in range(len(shares))]
            parts.append(bars(names, shares, taken[place] if taken[place] < len(shares) else None))
        return "".join(parts)
    if "mean" in parameters:
        names = labels if len(labels) == len(parameters["mean"]) else [str(i) for i in range(len(parameters["mean"]))]
        actions = row["action"] if isinstance(row["action"], list) else [row["action"]]
        numbers = zip(names, _flat(actions), parameters["mean"], parameters["std"], strict=False)
        rows = [(n, [cell(a, f"a.{n}"), cell(m, f"mean.{n}"), cell(s, f"std.{n}")]) for n, a, m, s in numbers]
        return table(rows, ["", "action", "mean", "std"])
    return ""


def _flat(values: Sequence[Json]) -> list[Json]:
    return [one for value in values for one in (_flat(value) if isinstance(value, list) else [value])]


class RewardCard:
    """Reward and its components, return, value, baseline, advantage, GAE."""

    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        with ui.column().classes("gl-card gap-1").style("flex: 1 1 240px"):
            ui.label("Reward and value").classes("font-semibold")
            self._shown = ui.html("", sanitize=False).classes("w-full").props("data-part=outcome")
        looking.on_step(self._draw)

    def _draw(self) -> None:
        row = self._state.row
        if row is None:
            return
        rows = [(content, [cell(row[name], name)]) for name, content in _OUTCOME.items()]
        rows[1:1] = [(f"· {name}", [cell(part, f"part.{name}")]) for name, part in row["components"].items()]
        self._shown.set_content(table(rows))


class EpisodeSummary:
    """One-line summary of the episode."""

    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        self._shown = ui.label("").classes("gl-faint").props("data-part=summary")
        looking.on_table(self._draw)

    def _draw(self) -> None:
        table_ = self._state.table
        assert table_ is not None
        way = "sampled" if table_.sampled else "greedy"
        content = f"checkpoint {table_.checkpoint}, seed {table_.seed}, {way}: {len(table_.rows)} steps, "
        self._shown.set_text(content + f"return {number(table_.total)}, {table_.ended}")


class PicturesCard:
    def __init__(self, looking: InspectorState) -> None:
        self._state = looking
        with ui.column().classes("gl-card gap-2 items-center").style("flex: 1 1 320px"):
            self._env = ui.element("img").props('alt="the environment"').style("max-width: 100%; max-height: 400px")
            self._text = ui.label("").classes("gl-mono").props("data-part=text")
            self._none = ui.label("this environment draws no pictures").classes("gl-faint")
            self._about = ui.label("what the policy sees, oldest frame first").classes("gl-faint")
            self._seen = ui.element("img").props('alt="what the policy sees"').props("data-part=seen")
            self._seen.style("max-width: 100%; image-rendering: pixelated")
        looking.on_step(self._draw)
        self._draw()

    def _draw(self) -> None:
        looking = self._state
        env = looking.address("env_files")
        seen = looking.address("seen_files")
        for image, source in ((self._env, env), (self._seen, seen)):
            image.set_visibility(bool(source))
            if source:
                image.props["src"] = source
                image.update()
        self._text.set_text(looking.text)
        self._text.set_visibility(bool(looking.text))
        self._about.set_visibility(bool(seen))
        self._none.set_visibility(looking.row is not None and not env and not looking.text)


def number(value: object) -> str:
    """A number with six digits; `cell` puts the exact one into the tooltip."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def cell(value: object, key: str = "") -> str:
    """A table's cell; `key` is how tests and scripts find it."""
    mark = f' data-key="{escape(key)}"' if key else ""
    return f'<td class="gl-number"{mark} title="{escape(str(value))}">{escape(number(value))}</td>'


def bound(value: float | None) -> str:
    """A cell for one bound, with four digits."""
    shown = "–" if value is None else f"{value:.4g}"
    return f'<td class="gl-number gl-faint">{shown}</td>'


def table(rows: Iterable[tuple[str, Sequence[str]]], head: Sequence[str] = ()) -> str:
    """Rows of a name and ready-made cells."""
    top = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>" if head else ""
    body = "".join(f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>" for name, cells in rows)
    return f'<div class="gl-table-in"><table class="gl-table">{top}{body}</table></div>'


def bars(names: Sequence[str], shares: Sequence[float], chosen: int | None, legal: Sequence[bool] | None = None) -> str:
    """Probabilities, the chosen one bold."""
    lines = []
    for place, (name, share) in enumerate(zip(names, shares, strict=True)):
        kind = "gl-bar gl-chosen" if place == chosen else "gl-bar"
        shown = f"{name} (illegal)" if legal is not None and not legal[place] else name
        lines.append(
            f'<div class="{kind}" data-key="p{place}" title="{share!r}"><span>{escape(shown)}</span>'
            f'<div><div style="width:{100 * share:.2f}%"></div></div><span class="gl-number">{share:.4f}</span></div>'
        )
    return "".join(lines)


STYLE = """
.gl-table { border-collapse: collapse; font-size: .82rem; width: 100%; }
.gl-table th { text-align: left; font-weight: normal; opacity: .8; padding: 1px 6px 1px 0; }
.gl-table th:first-child { min-width: 5.5rem; }
.gl-table-in { overflow-x: auto; }
.gl-number { font-family: ui-monospace, monospace; text-align: right; white-space: nowrap; }
.gl-table td { padding: 1px 4px; }
.gl-bar { display: grid; grid-template-columns: minmax(5rem, 2fr) 3fr 4rem; gap: .4rem; font-size: .82rem; }
.gl-bar > div { background: rgba(128,128,128,.2); height: .9em; align-self: center; }
.gl-bar > div > div { background: #5898d4; height: 100%; }
.gl-table tr:first-child th:not(:first-child) { text-align: right; padding: 1px 4px; }
.gl-transport { position: sticky; bottom: 0; z-index: 5; background: #fff; }
body.body--dark .gl-transport { background: #121212; }
.gl-chosen { font-weight: bold; }
.gl-chosen > div > div { background: #e08a2e; }
"""
