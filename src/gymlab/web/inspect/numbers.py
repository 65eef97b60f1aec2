"""The step in numbers: the observation with names and bounds, the decision, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from gymlab.web.inspect.html import bars, bound, cell, number, table
from gymlab.web.inspect.view_state import InspectorState
from gymlab.web.workers.observation import value_at

_OUTCOME = {
    "reward": "reward",
    "return_so_far": "return so far",
    "learnt_reward": "reward as learning sees it",
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


def _list(parts: Sequence[Mapping[str, Any]], row: Mapping[str, Any], column: str = "observation") -> str:
    seen = row["seen"] if column == "observation" else None
    head = ["", "value", *(["normalised"] if seen is not None else []), "from", "to"]
    rows = []
    for part in parts:
        path = part["path"]
        key = f"{column}.{'.'.join(map(str, path))}"
        cells = [cell(_at(row[column], path), key)]
        cells += [cell(_at(seen, path), f"seen.{'.'.join(map(str, path))}")] if seen is not None else []
        rows.append((part["name"], [*cells, bound(part["low"]), bound(part["high"])]))
    return table(rows, head)


def _stack(parts: Sequence[Mapping[str, Any]], row: Mapping[str, Any]) -> str:
    backs = sorted({part["back"] for part in parts}, reverse=True)
    frame = len(parts) // len(backs)
    head = ["", *("now" if back == 0 else f"-{back}" for back in backs), "from", "to"]
    rows = []
    for place in range(frame):
        own = parts[place::frame]
        cells = [cell(_at(row["observation"], p["path"]), f"observation.{p['path'][-1]}") for p in own]
        rows.append((own[0]["name"], [*cells, bound(own[0]["low"]), bound(own[0]["high"])]))
    return table(rows, head)


def _at(observation: Any, path: Sequence[Any]) -> Any:
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
        known = ("probability", "log_prob", "entropy")
        content = table([(name.replace("_", " "), [cell(row[name], name)]) for name in known])
        self._shown.set_content(distribution(row, self._state.facts) + content)


def distribution(row: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Bars where actions can be counted, mean and spread where they cannot."""
    labels = facts["labels"]
    spread = row["spread"]
    if row["probabilities"]:
        chosen = labels.index(row["label"]) if row["label"] in labels else None
        return bars(labels, row["probabilities"], chosen, row.get("mask"))
    if "choices" in spread:
        actions = row["action"]
        parts = []
        for place, shares in enumerate(spread["choices"]):
            names = [f"{place}: {choice}" for choice in range(len(shares))]
            parts.append(bars(names, shares, actions[place] if actions[place] < len(shares) else None))
        return "".join(parts)
    if "mean" in spread:
        names = labels if len(labels) == len(spread["mean"]) else [str(i) for i in range(len(spread["mean"]))]
        actions = row["action"] if isinstance(row["action"], list) else [row["action"]]
        numbers = zip(names, _flat(actions), spread["mean"], spread["std"], strict=False)
        rows = [(n, [cell(a, f"a.{n}"), cell(m, f"mean.{n}"), cell(s, f"std.{n}")]) for n, a, m, s in numbers]
        return table(rows, ["", "action", "mean", "std"])
    return ""


def _flat(values: list[Any]) -> list[Any]:
    return [one for value in values for one in (_flat(value) if isinstance(value, list) else [value])]


class RewardCard:
    """Reward and its parts, and what the step was worth: return, value, baseline, advantage, GAE."""

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
    """One line on the whole episode."""

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
