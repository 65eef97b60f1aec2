"""Layout of the live console as styled lines that fit a terminal: progress bar, table of metrics, alerts, help."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gymlab.alerts.engine import Alert
from gymlab.features.console.view import RunView, advice_line, format_metrics, known
from gymlab.metrics import catalogue
from gymlab.metrics.metric import HEADLINE, Metric
from gymlab.terminal.plots import sparkline
from gymlab.terminal.screen import SEVERITY_STYLES, Span, StyledLine, crop, plain_text

PANEL = 66  # columns of one panel; wider terminals have several side by side
GAP = 2
LOG_ROWS = 4  # rows left for lines printed above
_NAMESPACE = 6
_NAME = 22
_VALUE = 10
_CHANGE = 9
_ALERT = 21
_LONG_NAME = 32
_LATER = {"score": 10, "time": 8, "env": 20, "hp": 25, "sys": 20}  # added to priorities: these are left out first
_BESIDE_BAR = ("time/progress",)  # not repeated in the table
_MIN_ROWS = 8  # below that there is no table
_ADVICE_ROWS = 6


@dataclass(frozen=True)
class TableSelection:
    """What the keys have selected to be shown."""

    only: str = ""  # one namespace; "-" for no table
    hidden: frozenset[str] = frozenset()
    advice: bool = False
    help: bool = False
    message: str = ""

    def shows(self, namespace: str) -> bool:
        return self.only == namespace if self.only else namespace not in self.hidden


def frame(view: RunView, selection: TableSelection, columns: int, rows: int) -> list[StyledLine]:
    """All lines of a frame: at most the terminal's rows, less a few for lines printed above."""
    columns -= 1  # terminals differ in when they wrap after the last column
    if not view.values:
        return [_hint(view, selection)]
    progress = [_bar(view, columns), view.counts()]
    advice = [advice_line(alert) for alert in view.active()][:_ADVICE_ROWS] if selection.advice else []
    below = [*advice, *([_help(view)] if selection.help else []), _hint(view, selection)]
    room = rows - LOG_ROWS - len(progress) - len(below)
    if rows < _MIN_ROWS:
        return progress[: max(rows - 1, 1)]
    return [*progress, *table(view, selection, columns, max(room, 0)), *below]


def table(view: RunView, selection: TableSelection, columns: int, rows: int) -> list[StyledLine]:
    """The metrics, grouped by namespace, in as many panels as fit."""
    most = max(1, columns // PANEL)
    pinned = frozenset(alert.metric for alert in view.alerts.values())
    names = select_metrics(tuple(view.values), selection, pinned, most * rows)
    panels = min(most, max(2, math.ceil(len(names) / max(rows, 1))))
    width = (columns - GAP * (panels - 1)) // panels
    cells = format_metrics(view.values, names)
    alerts: dict[str, list[Alert]] = {}
    for alert in view.active():
        alerts.setdefault(alert.metric, []).append(alert)
    height = math.ceil(len(names) / panels)
    lines: list[StyledLine] = [[] for _ in range(height)]
    for place, name in enumerate(names):
        namespace = known(name).namespace
        first = place % height == 0 or known(names[place - 1]).namespace != namespace
        row = _row(view, name, cells[name], alerts.get(name, []), width)
        line = lines[place % height]
        line += [*([Span(" " * GAP)] if line else []), Span(f"{namespace if first else '':{_NAMESPACE}}", "dim"), *row]
    return lines


@lru_cache(64)
def select_metrics(names: tuple[str, ...], selection: TableSelection, pinned: frozenset[str], room: int) -> list[str]:
    """The metrics with the best priority, at most `room`, in catalogue order; `pinned` ones come before all others."""
    candidates = [name for name in names if "/" in name and name not in _BESIDE_BAR]
    selected = [name for name in candidates if selection.shows(known(name).namespace)]

    def weight(name: str) -> tuple[bool, bool, int, str]:
        metric = known(name)
        return name not in pinned, metric.priority > HEADLINE, metric.priority + _LATER.get(metric.namespace, 0), name

    return catalogue.ordered(sorted(selected, key=weight)[:room])


def groups(names: Iterable[str]) -> list[str]:
    """The namespaces of these metrics, in catalogue order."""
    return [group for group in catalogue.grouped(names) if group != "clock"]


def _row(view: RunView, name: str, value: str, alerts: Sequence[Alert], width: int) -> StyledLine:
    metric = known(name)
    named = _NAME + max(0, min(width - PANEL - 16, _LONG_NAME - _NAME))
    tail = max(0, width - _NAMESPACE - named - _VALUE - _CHANGE - 3)
    both = tail > _ALERT + GAP  # room for a sparkline and an alert
    curve_width = tail - _ALERT - 1 if both else 0 if alerts else tail
    label = name.removeprefix(f"{metric.namespace}/")
    change, style = _change(metric, view.change(name))
    row = [
        Span(f"{crop(label, named):{named}} {crop(value, _VALUE):>{_VALUE}} ", metric.highlight),
        Span(f"{crop(change, _CHANGE):>{_CHANGE}} ", style),
        Span(f"{_sparkline(view.history.column(name), curve_width):{curve_width}}", "green"),
    ]
    return [*row, _alert_cell(alerts, tail - curve_width, " " if both else "")]


def _alert_cell(alerts: Sequence[Alert], room: int, indent: str) -> Span:
    """A row's worst alert, and how many more there are."""
    if not alerts:
        return Span(" " * room)
    worst = max(alerts, key=lambda alert: list(SEVERITY_STYLES).index(alert.severity))
    more = f" +{len(alerts) - 1}" if len(alerts) > 1 else ""
    text = crop(f"{indent}! {worst.id}", room - len(more)) + more
    return Span(f"{text:{room}}", SEVERITY_STYLES[worst.severity])


@lru_cache(1024)
def _sparkline(values: tuple[float, ...], width: int) -> str:
    """A sparkline; empty if the values are all equal."""
    return "" if width < 1 or not values or min(values) == max(values) else sparkline(values, width)


def _change(metric: Metric, change: float) -> tuple[str, str]:
    """A difference with its sign, and the colour of better or worse; empty if it rounds to zero."""
    if not math.isfinite(change) or change == 0:
        return "", ""
    size = metric.text(abs(change))
    size = size if len(size) < _CHANGE else f"{abs(change):.2g}"
    if not any(letter in "123456789" for letter in size):
        return "", ""
    good = {"up": change > 0, "down": change < 0}.get(metric.better)
    return f"{'+' if change > 0 else '-'}{size}", "dim" if good is None else "green" if good else "red"


def _bar(view: RunView, columns: int) -> StyledLine:
    times = view.times()
    width = max(0, min(60, columns - len(plain_text(times)) - 8))
    done = round(view.progress * width)
    return [
        Span(f"{view.progress:4.0%} "),
        Span("━" * done, "green"),
        Span("─" * (width - done), "dim"),
        Span(" "),
        *times,
    ]


def _help(view: RunView) -> StyledLine:
    last = len(groups(view.values))
    return [Span(f"p pause  e evaluate  c checkpoint  s stop  a advice  g group  1-{last} hide a group", "dim")]


def _hint(view: RunView, selection: TableSelection) -> StyledLine:
    count = len(view.alerts)
    message = Span(selection.message or "? keys", "bold" if selection.message else "dim")
    if not count or selection.advice:
        return [message]
    return [Span(f"{count} alert{'s' * (count > 1)} (a: advice)  ", "yellow"), message]
