"""RunView: the numbers that consoles show, updated by a run's events, and their text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from gymlab.alerts.engine import Alert
from gymlab.core.clock import Clock
from gymlab.core.format import format_count, format_elapsed
from gymlab.core.types import Json
from gymlab.metrics import catalogue
from gymlab.metrics.metric import Metric
from gymlab.terminal.screen import SEVERITY_STYLES, Span, StyledLine, plain_text
from gymlab.training.events import Evaluated, Event, Measured, Recorded, Updated

SAMPLES = 40  # a history keeps from this many to twice as many
_FULL_WINDOW = 100
_SPEED_SECONDS = 0.5


class MetricHistory:
    """All metrics at evenly spaced updates of the whole run; when full, every second sample is dropped."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, float]] = []
        self._count = 0
        self._stride = 1
        self._columns: dict[str, tuple[float, ...]] = {}

    def add(self, values: Mapping[str, float]) -> None:
        """After every update, with the latest value of every metric."""
        if self._count % self._stride == 0:
            self.rows.append(dict(values))
            self._columns.clear()
        self._count += 1
        if len(self.rows) == 2 * SAMPLES:
            self.rows = self.rows[::2]
            self._stride = 2 * self._stride

    def column(self, name: str) -> tuple[float, ...]:
        """The values of one metric, oldest first."""
        if name not in self._columns:
            self._columns[name] = tuple(row[name] for row in self.rows if name in row)
        return self._columns[name]


class RunView:
    """What every console shows of a run."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.progress = 0.0
        self.sps = math.nan
        self.values: dict[str, float] = {}  # the latest of every metric
        self.history = MetricHistory()
        self.return_text = _format_return({})
        self.alerts: dict[str, Alert] = {}  # those that are active, by id
        self._earlier: dict[str, float] = {}  # `Measured` metrics: the value before the latest
        self._drawn: dict[str, float] = {}
        self._drawn_before: dict[str, float] = {}
        self._drawn_at = -1
        self._mark: Clock | None = None  # start of the speed measurement, after the first call, which compiles

    def update(self, event: Updated) -> None:
        """Take in clocks and metrics, also of updates that get no row in the store."""
        self.clock = event.clock
        latest = event.rows[-1].metrics
        for row in event.rows:
            self.values.update(row.metrics)
            self.history.add(self.values)
        self.progress = latest["time/progress"]
        self.return_text = _format_return(latest)
        mark = self._mark
        if mark is None:
            self._mark = event.clock
        elif event.clock.seconds - mark.seconds > _SPEED_SECONDS or math.isnan(self.sps):
            self.sps = (event.clock.env_steps - mark.env_steps) / max(event.clock.seconds - mark.seconds, 1e-9)
            self._mark = event.clock

    def record(self, event: Recorded) -> None:
        """Metrics as stored replace those of the update."""
        for row in event.rows:
            self.values.update(row.metrics)

    def measure(self, event: Measured) -> None:
        for name in event.metrics:
            if name in self.values:
                self._earlier[name] = self.values[name]
        self.values.update(event.metrics)

    def active(self) -> list[Alert]:
        """Alerts that were raised and not cleared, sorted by id."""
        return [self.alerts[name] for name in sorted(self.alerts)]

    def draw(self) -> None:
        """Called before a frame: `change` compares with the values of the previous frame."""
        if self.clock.updates != self._drawn_at:
            self._drawn_before = self._drawn
            self._drawn = dict(self.values)
            self._drawn_at = self.clock.updates

    def change(self, name: str) -> float:
        """Difference to the previous frame, or for `Measured` metrics to the previous measurement."""
        earlier = self._earlier if name in self._earlier else self._drawn_before
        return self.values[name] - earlier.get(name, math.nan)

    def counts(self) -> StyledLine:
        """Steps, episodes, return and speed."""
        clock = self.clock
        vec_steps = format_count(clock.vec_steps, brief=True)
        env_steps = format_count(clock.env_steps, brief=True)
        return [
            Span(f"{vec_steps} vec_steps ({env_steps} env) · {clock.episodes} episodes · "),
            Span(f"return {self.return_text}", "bold"),
            Span(f" · {'-' if math.isnan(self.sps) else format_count(round(self.sps), brief=True)} steps/s"),
        ]

    def times(self) -> StyledLine:
        """Time spent and time left."""
        left = math.nan
        if self.progress and self.sps:
            left = self.clock.env_steps * (1 - self.progress) / self.progress / self.sps
        eta = "-" if math.isnan(left) else format_elapsed(left)
        return [Span(format_elapsed(self.clock.seconds), _style("seconds")), Span(f" · eta {eta}")]

    def line(self) -> str:
        """Everything about progress in one line."""
        return f"{self.progress:4.0%} · {plain_text(self.counts())} · {plain_text(self.times())}"


def _format_return(row: Mapping[str, float]) -> str:
    """The mean return of the training window, labelled while the window is not full."""
    if not row.get("roll/return_window"):
        return "- (no episode finished)"
    partial = "" if row["roll/return_window"] >= _FULL_WINDOW else " (partial)"
    return f"{known('roll/return_mean').text(row['roll/return_mean'])}{partial}"


def format_metrics(row: Mapping[str, float], names: Iterable[str] | None = None) -> dict[str, str]:
    """Every metric's value as text at its precision, in catalogue order unless `names` are passed."""
    names = catalogue.ordered(row) if names is None else names
    return {name: known(name).text(row[name] + 0.0) for name in names}  # + 0.0: no negative zero


@lru_cache(4096)
def known(name: str) -> Metric:
    """A metric's entry in the catalogue, cached."""
    return catalogue.metric(name)


def evaluation_line(event: Evaluated) -> str:
    greedy = event.evaluation.greedy
    sampled = event.evaluation.sampled
    name = "confirming eval" if event.kind == "confirm" else "eval"
    steps = format_count(event.clock.env_steps, brief=True)
    return (
        f"{name} at {steps} env_steps: greedy {greedy.mean:.1f} ± {greedy.std:.1f}, "
        f"sampled {sampled.mean:.1f} ± {sampled.std:.1f} ({event.evaluation.episodes} each)"
    )


def alert_line(event: Event, alert: Alert) -> StyledLine:
    """A raised alert in one line: severity, id, when, evidence and advice."""
    return [
        Span(f"{alert.severity} {alert.id}", SEVERITY_STYLES[alert.severity]),
        Span(f" at {format_count(event.clock.vec_steps, brief=True)} vec_steps: {' '.join(_alert_text(alert))}"),
    ]


def advice_line(alert: Alert) -> StyledLine:
    return [Span(f"{alert.id}: ", SEVERITY_STYLES[alert.severity]), Span(" ".join(_alert_text(alert)))]


def _alert_text(alert: Alert) -> Iterator[str]:
    yield alert.evidence or alert.title
    tried = ", ".join(f"{key}={_format_value(value)}" for key, value in alert.overrides.items())
    yield f"-> try {tried}" if tried else f"-> {alert.advice}"


def _format_value(value: Json) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "")


def _style(name: str) -> str:
    return known(name).highlight
