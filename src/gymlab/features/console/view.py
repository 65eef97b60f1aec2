"""The numbers a person wants to see, kept current from a run's events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Protocol

from gymlab.core.clock import Clock
from gymlab.core.format import format_count, format_elapsed
from gymlab.metrics import catalogue
from gymlab.metrics.metric import Metric
from gymlab.terminal.ansi import Line, Span, plain
from gymlab.training.events import Evaluated, Event, Measured, Recorded, Updated

SAMPLES = 40  # of the run so far that a history keeps at least, once there are so many
_FULL_WINDOW = 100
_SPEED_SECONDS = 0.5
SEVERITY_STYLES = {"info": "dim", "warning": "yellow", "critical": "bold red"}  # the worst last


class Finding(Protocol):
    """An alert, as far as it is shown."""

    @property
    def id(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def evidence(self) -> str: ...
    @property
    def advice(self) -> str: ...
    @property
    def overrides(self) -> Mapping[str, Any]: ...


class History:
    """What was known at even distances over the whole run, few enough to draw."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, float]] = []
        self._seen = 0
        self._stride = 1
        self._columns: dict[str, tuple[float, ...]] = {}

    def add(self, values: Mapping[str, float]) -> None:
        """After every update, with the latest value of every metric."""
        if self._seen % self._stride == 0:
            self.rows.append(dict(values))
            self._columns.clear()
        self._seen += 1
        if len(self.rows) == 2 * SAMPLES:
            self.rows = self.rows[::2]
            self._stride = 2 * self._stride

    def of(self, name: str) -> tuple[float, ...]:
        """The values of one metric, oldest first."""
        if name not in self._columns:
            self._columns[name] = tuple(row[name] for row in self.rows if name in row)
        return self._columns[name]


class View:
    """What is shown of a run, whichever way it is shown."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.progress = 0.0
        self.sps = math.nan
        self.values: dict[str, float] = {}  # the latest of every metric
        self.history = History()
        self.returned = _returned({})
        self.alerts: dict[str, Finding] = {}  # those that are active, by id
        self._earlier: dict[str, float] = {}  # of measured metrics: the value before the latest
        self._shown: dict[str, float] = {}
        self._before: dict[str, float] = {}
        self._shown_at = -1
        self._mark: Clock | None = None  # where speed is counted from: the first call compiles and is left out

    def update(self, event: Updated) -> None:
        """Where the run is. Not every update has a row in the store; between two rows its own numbers are shown."""
        self.clock = event.clock
        latest = event.rows[-1].metrics
        for row in event.rows:
            self.values.update(row.metrics)
            self.history.add(self.values)
        self.progress = latest["time/progress"]
        self.returned = _returned(latest)
        mark = self._mark
        if mark is None:
            self._mark = event.clock
        elif event.clock.seconds - mark.seconds > _SPEED_SECONDS or math.isnan(self.sps):
            self.sps = (event.clock.env_steps - mark.env_steps) / max(event.clock.seconds - mark.seconds, 1e-9)
            self._mark = event.clock

    def record(self, event: Recorded) -> None:
        """What the store holds of an update is what is shown of it."""
        for row in event.rows:
            self.values.update(row.metrics)

    def measure(self, event: Measured) -> None:
        for name in event.metrics:
            if name in self.values:
                self._earlier[name] = self.values[name]
        self.values.update(event.metrics)

    def active(self) -> list[Finding]:
        """Alerts that were raised and not cleared, by id."""
        return [self.alerts[name] for name in sorted(self.alerts)]

    def draw(self) -> None:
        """What is shown from now on is compared with what was shown until now."""
        if self.clock.updates != self._shown_at:
            self._before, self._shown, self._shown_at = self._shown, dict(self.values), self.clock.updates

    def change(self, name: str) -> float:
        """Since the row that was drawn before; of what is measured now and then since it was measured before."""
        earlier = self._earlier if name in self._earlier else self._before
        return self.values[name] - earlier.get(name, math.nan)

    def counts(self) -> Line:
        """Steps, episodes, return and speed."""
        clock = self.clock
        vec_steps = format_count(clock.vec_steps, brief=True)
        env_steps = format_count(clock.env_steps, brief=True)
        return [
            Span(f"{vec_steps} vec_steps ({env_steps} env) · {clock.episodes} episodes · "),
            Span(f"return {self.returned}", "bold"),
            Span(f" · {'-' if math.isnan(self.sps) else format_count(round(self.sps), brief=True)} steps/s"),
        ]

    def times(self) -> Line:
        """Time spent and time left."""
        left = math.nan
        if self.progress and self.sps:
            left = self.clock.env_steps * (1 - self.progress) / self.progress / self.sps
        eta = "-" if math.isnan(left) else format_elapsed(left)
        return [Span(format_elapsed(self.clock.seconds), _style("seconds")), Span(f" · eta {eta}")]

    def line(self) -> str:
        """Everything about progress in one line."""
        return f"{self.progress:4.0%} · {plain(self.counts())} · {plain(self.times())}"


def _returned(row: Mapping[str, float]) -> str:
    """The mean return of the training window, labelled while the window is not full."""
    if not row.get("roll/return_window"):
        return "- (no episode finished)"
    partial = "" if row["roll/return_window"] >= _FULL_WINDOW else " (partial)"
    return f"{known('roll/return_mean').text(row['roll/return_mean'])}{partial}"


def snapshot(row: Mapping[str, float], names: Iterable[str] | None = None) -> dict[str, str]:
    """What a table shows of a row: every metric's value at its precision, in the order of all tables unless named."""
    wanted = catalogue.ordered(row) if names is None else names
    return {name: known(name).text(row[name] + 0.0) for name in wanted}  # a zero has no sign


@lru_cache(4096)
def known(name: str) -> Metric:
    """What the catalogue says of a metric."""
    return catalogue.metric(name)


def evaluation_line(event: Evaluated) -> str:
    greedy = event.evaluation.greedy
    sampled = event.evaluation.sampled
    name = "confirming eval" if event.kind == "confirm" else "eval"
    steps = format_count(event.clock.env_steps, brief=True)
    return (
        f"{name} at {steps} env_steps: greedy {greedy.mean:.1f} ± {greedy.std:.1f}, "
        f"sampled {sampled.mean:.1f} ± {sampled.std:.1f} ({greedy.n} episodes each)"
    )


def alert_line(event: Event, alert: Finding) -> Line:
    """An alert that was raised, in one line: how bad, what, where, why, and what to try."""
    return [
        Span(f"{alert.severity} {alert.id}", SEVERITY_STYLES[alert.severity]),
        Span(f" at {format_count(event.clock.vec_steps, brief=True)} vec_steps: {' '.join(_told(alert))}"),
    ]


def advice_line(alert: Finding) -> Line:
    return [Span(f"{alert.id}: ", SEVERITY_STYLES[alert.severity]), Span(" ".join(_told(alert)))]


def _told(alert: Finding) -> Iterator[str]:
    yield alert.evidence or alert.title
    tried = ", ".join(f"{key}={_number(value)}" for key, value in alert.overrides.items())
    yield f"-> try {tried}" if tried else f"-> {alert.advice}"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "")


def _style(name: str) -> str:
    return known(name).highlight
