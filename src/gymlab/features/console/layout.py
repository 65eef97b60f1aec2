"""What fits into a terminal of some size, as styled lines: a bar, the table of metrics, alerts, a line of help."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gymlab.features.console.view import SEVERITY_STYLES, Finding, View, advice_line, known, snapshot
from gymlab.metrics import catalogue
from gymlab.metrics.metric import HEADLINE, Metric
from gymlab.terminal.ansi import Line, Span, cropped, plain
from gymlab.terminal.plots import sparkline

PANEL = 66  # letters a table needs; wider terminals have several side by side
GAP = 2
LOG_ROWS = 4  # left for what is printed above
_NAMESPACE = 6
_NAME = 22
_VALUE = 10
_CHANGE = 9
_ALERT = 21
_LONG_NAME = 32
_LATER = {"score": 10, "time": 8, "env": 20, "hp": 25, "sys": 20}  # priorities of these give way where room is short
_TOLD = ("time/progress",)  # beside the bar
_BARE = 8  # rows below which there is no table
_ADVICE_ROWS = 6


@dataclass(frozen=True)
class Choice:
    """What the person at the keys wants to see."""

    only: str = ""  # one namespace; "-" for no table
    hidden: frozenset[str] = frozenset()
    advice: bool = False
    help: bool = False
    message: str = ""

    def shows(self, namespace: str) -> bool:
        return self.only == namespace if self.only else namespace not in self.hidden


def frame(view: View, choice: Choice, columns: int, rows: int) -> list[Line]:
    """Everything that is redrawn: never more than the terminal holds, less a few rows for what is printed above."""
    columns -= 1  # terminals differ in what they do after a letter in the last one
    if not view.values:
        return [_hint(view, choice)]
    progress = [_bar(view, columns), view.counts()]
    advice = [advice_line(alert) for alert in view.active()][:_ADVICE_ROWS] if choice.advice else []
    below = [*advice, *([_help(view)] if choice.help else []), _hint(view, choice)]
    room = rows - LOG_ROWS - len(progress) - len(below)
    if rows < _BARE:
        return progress[: max(rows - 1, 1)]
    return [*progress, *table(view, choice, columns, max(room, 0)), *below]


def table(view: View, choice: Choice, columns: int, rows: int) -> list[Line]:
    """The metrics, grouped by namespace, in as many panels as there is room for."""
    most = max(1, columns // PANEL)
    pinned = frozenset(alert.metric for alert in view.alerts.values())
    names = shown(tuple(view.values), choice, pinned, most * rows)
    panels = min(most, max(2, math.ceil(len(names) / max(rows, 1))))
    width = (columns - GAP * (panels - 1)) // panels
    cells = snapshot(view.values, names)
    alerts: dict[str, list[Finding]] = {}
    for alert in view.active():
        alerts.setdefault(alert.metric, []).append(alert)
    height = math.ceil(len(names) / panels)
    lines: list[Line] = [[] for _ in range(height)]
    for place, name in enumerate(names):
        namespace = known(name).namespace
        first = place % height == 0 or known(names[place - 1]).namespace != namespace
        row = _row(view, name, cells[name], alerts.get(name, []), width)
        line = lines[place % height]
        line += [*([Span(" " * GAP)] if line else []), Span(f"{namespace if first else '':{_NAMESPACE}}", "dim"), *row]
    return lines


@lru_cache(64)
def shown(names: tuple[str, ...], choice: Choice, pinned: frozenset[str], room: int) -> list[str]:
    """Those that matter most, as many as there is room for, in the order of all tables; `pinned` before all others."""
    wanted = [name for name in names if "/" in name and name not in _TOLD and choice.shows(known(name).namespace)]

    def weight(name: str) -> tuple[bool, bool, int, str]:
        metric = known(name)
        return name not in pinned, metric.priority > HEADLINE, metric.priority + _LATER.get(metric.namespace, 0), name

    return catalogue.ordered(sorted(wanted, key=weight)[:room])


def groups(names: Iterable[str]) -> list[str]:
    """The namespaces of a table, in order."""
    return [group for group in catalogue.grouped(names) if group != "clock"]


def _row(view: View, name: str, value: str, alerts: Sequence[Finding], width: int) -> Line:
    metric = known(name)
    named = _NAME + max(0, min(width - PANEL - 16, _LONG_NAME - _NAME))
    tail = max(0, width - _NAMESPACE - named - _VALUE - _CHANGE - 3)
    both = tail > _ALERT + GAP
    drawn = tail - _ALERT - 1 if both else 0 if alerts else tail
    label = name.removeprefix(f"{metric.namespace}/")
    change, style = _change(metric, view.change(name))
    row = [
        Span(f"{cropped(label, named):{named}} {cropped(value, _VALUE):>{_VALUE}} ", metric.highlight),
        Span(f"{cropped(change, _CHANGE):>{_CHANGE}} ", style),
        Span(f"{_curve(view.history.of(name), drawn):{drawn}}", "green"),
    ]
    return [*row, _beside(alerts, tail - drawn, " " if both else "")]


def _beside(alerts: Sequence[Finding], room: int, indent: str) -> Span:
    """A row's worst alert, and how many more there are."""
    if not alerts:
        return Span(" " * room)
    worst = max(alerts, key=lambda alert: list(SEVERITY_STYLES).index(alert.severity))
    more = f" +{len(alerts) - 1}" if len(alerts) > 1 else ""
    told = cropped(f"{indent}! {worst.id}", room - len(more)) + more
    return Span(f"{told:{room}}", SEVERITY_STYLES[worst.severity])


@lru_cache(1024)
def _curve(values: tuple[float, ...], width: int) -> str:
    """Nothing where nothing has changed: a flat line tells no more."""
    return "" if width < 1 or not values or min(values) == max(values) else sparkline(values, width)


def _change(metric: Metric, change: float) -> tuple[str, str]:
    """A difference with its sign, and the colour of better or worse; nothing where nothing changed to be seen."""
    if not math.isfinite(change) or change == 0:
        return "", ""
    size = metric.text(abs(change))
    size = size if len(size) < _CHANGE else f"{abs(change):.2g}"
    if not any(letter in "123456789" for letter in size):
        return "", ""
    good = {"up": change > 0, "down": change < 0}.get(metric.better)
    return f"{'+' if change > 0 else '-'}{size}", "dim" if good is None else "green" if good else "red"


def _bar(view: View, columns: int) -> Line:
    times = view.times()
    width = max(0, min(60, columns - len(plain(times)) - 8))
    done = round(view.progress * width)
    return [
        Span(f"{view.progress:4.0%} "),
        Span("━" * done, "green"),
        Span("─" * (width - done), "dim"),
        Span(" "),
        *times,
    ]


def _help(view: View) -> Line:
    last = len(groups(view.values))
    return [Span(f"p pause  e evaluate  c checkpoint  s stop  a advice  g group  1-{last} hide a group", "dim")]


def _hint(view: View, choice: Choice) -> Line:
    count = len(view.alerts)
    told = [Span(f"{count} alert{'s' * (count > 1)} (a: advice)  ", "yellow")] if count and not choice.advice else []
    return [*told, Span(choice.message or "? keys", "bold" if choice.message else "dim")]
