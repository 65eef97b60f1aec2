"""The alert engine: what a rule is, what an alert is, and `AlertEngine`, which folds rows of metrics into alerts.

A live run and its metric store give the same alerts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict, cast

from gymlab.alerts.agreement import agreeing
from gymlab.alerts.causes import CAUSES
from gymlab.alerts.context import RunContext
from gymlab.core.clock import Clock
from gymlab.core.types import Json, read_only
from gymlab.runs.records import AlertRecord, AlertsFile

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
Memory = dict[str, float]  # a rule's state between rows; finite, so that it can be compared
EVERYTHING = "*"  # in `AlertRule.metrics`: the rule judges all metrics of a row
FORMAT = 1  # of alerts.json
_LATE = ("eval/", "time/", "sys/")
# Carried over from the last row where an evaluation comes without them, and across a resume.
_CARRIED = ("time/progress", "roll/return_mean", "roll/return_min", "roll/return_window")


class JudgedRow(NamedTuple):
    """The metrics of one update that are known so far."""

    clock: Clock
    metrics: Mapping[str, float]

    @property
    def progress(self) -> float:
        return self.metrics.get("time/progress", 0.0)


class Evidence(NamedTuple):
    """The metric, text and numbers that show why a row is failing."""

    metric: str
    text: str
    numbers: dict[str, float] = {}  # noqa: RUF012 - a tuple's default, never written to


class Advice(NamedTuple):
    """What to change, as text and as overrides by full key."""

    text: str
    overrides: dict[str, Json] = {}  # noqa: RUF012


class Judged(NamedTuple):
    """A rule's result for one row."""

    evidence: Evidence | None = None  # None: the row passes
    memory: Memory | None = None  # None: unchanged
    counts: bool = True  # False: the row only changes the memory


# Returns None where the row holds nothing to judge: it then counts neither as failing nor as passing.
Judge = Callable[[JudgedRow, Memory, RunContext], Judged | None]
Advise = Callable[[RunContext, Evidence], Advice]


@dataclass(frozen=True)
class AlertRule:
    """Raised once `raise_after` of the last `of` judged rows were failing, cleared after `clear_after` passing ones."""

    id: str
    severity: Severity
    title: str  # what is wrong, in a few words
    help: str  # why that is bad, and when it is raised
    metrics: tuple[str, ...]  # the row must have all of them; `x/*` stands for any of a family
    judge: Judge
    advise: Advise
    raise_after: int = 3
    of: int = 5
    clear_after: int = 5
    after: float = 0.0  # progress before which nothing is raised
    requests_histograms: bool = False  # raising it requests histograms of the next update
    exact: frozenset[str] = field(init=False)
    families: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        assert 0 < self.raise_after <= self.of
        families = tuple(name[:-1] for name in self.metrics if name.endswith("*"))
        object.__setattr__(self, "families", families)
        object.__setattr__(self, "exact", frozenset(name for name in self.metrics if not name.endswith("*")))

    @property
    def late(self) -> bool:
        """Whether it judges metrics that arrive after the update, now and then: none of these rows is skipped."""
        return any(name.startswith(_LATE) and name != "time/progress" for name in self.metrics)

    @property
    def of_machine(self) -> bool:
        """Whether it judges the machine: results differ from session to session and are left out of a run's state."""
        return any(name.startswith(("time/", "sys/")) and name != "time/progress" for name in self.metrics)

    def concerns(self, new: Mapping[str, float], row: Mapping[str, float]) -> bool:
        """Whether the `new` metrics make this row one to judge."""
        if not self.exact <= row.keys():
            return False
        if any(name in new for name in self.exact):
            return True
        return any(name.startswith(family) for family in self.families for name in new)


class Step(NamedTuple):
    """The clocks of a row, without seconds."""

    updates: int
    vec_steps: int
    env_steps: int

    @classmethod
    def of(cls, clock: Clock) -> Step:
        return cls(clock.updates, clock.vec_steps, clock.env_steps)


class AlertEngineState(TypedDict):
    """What an `AlertEngine` continues from."""

    clock: list[Any]  # the fields of a `Clock`
    row: dict[str, float]
    late_row: tuple[int, dict[str, float]] | None
    last_judged_update: float | None
    rules: dict[str, dict[str, Any]]  # each rule's counters and memory


@dataclass(frozen=True)
class Alert:
    """One rule that was raised at least once."""

    id: str
    severity: Severity
    title: str
    metric: str  # the one that shows it
    evidence: str  # of the latest failing row
    numbers: Mapping[str, float]
    count: int  # judged rows that were failing
    judged: int
    first: Step  # the first failing row
    last: Step  # the latest
    active: bool
    advice: str
    overrides: Mapping[str, Json]  # by full key: what to try

    @property
    def share(self) -> float:
        """Failing rows over judged rows."""
        return self.count / self.judged if self.judged else 0.0

    def as_json(self) -> AlertRecord:
        steps = {"first": self.first._asdict(), "last": self.last._asdict()}
        tables = {"numbers": dict(self.numbers), "overrides": dict(self.overrides)}
        return cast("AlertRecord", {**vars(self), **tables, **steps, "share": round(self.share, 4)})

    @classmethod
    def from_json(cls, data: AlertRecord) -> Alert:
        return cls(
            id=data["id"],
            severity=cast("Severity", data["severity"]),
            title=data["title"],
            metric=data["metric"],
            evidence=data["evidence"],
            numbers=data["numbers"],
            count=data["count"],
            judged=data["judged"],
            first=Step(**data["first"]),
            last=Step(**data["last"]),
            active=data["active"],
            advice=data["advice"],
            overrides=data["overrides"],
        )


def alerts_json(alerts: Iterable[Alert]) -> AlertsFile:
    """The content of `alerts.json`, sorted by id."""
    return {"format": FORMAT, "alerts": [alert.as_json() for alert in sorted(alerts, key=lambda alert: alert.id)]}


def most_severe_first(alerts: Iterable[Alert]) -> list[Alert]:
    """Sorted by severity, then by share of failing rows, then by id."""
    return sorted(alerts, key=lambda a: (-SEVERITIES.index(a.severity), -a.share, a.id))


def _first_to_follow(alerts: Sequence[Alert]) -> list[Alert]:
    """Raised ones before those that are over, causes before their effects, then by severity and share."""
    ids = {alert.id for alert in alerts if alert.severity != "info"}
    above = {alert.id: sum(cause in ids and effect == alert.id for cause, effect in CAUSES) for alert in alerts}
    return sorted(most_severe_first(alerts), key=lambda alert: (not alert.active, above[alert.id]))


class AlertChange(NamedTuple):
    """An alert that was raised or cleared just now."""

    alert: Alert
    raised: bool
    requests_histograms: bool


@dataclass
class _RuleState:
    """The counters of one rule. Field names are keys of the checkpoint."""

    judged: int = 0
    count: int = 0
    recent: list[bool] = field(default_factory=list)  # whether each of the last judged rows was failing
    update: int = -1  # the last one judged
    active: bool = False
    raised: bool = False  # ever
    first: Step | None = None
    last: Step | None = None
    evidence: Evidence | None = None
    memory: Memory = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if value not in (None, [], {})}
        return fields | {"recent": "".join("01"[failing] for failing in self.recent)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> _RuleState:
        fields = {**data, "recent": [mark == "1" for mark in data["recent"]]}
        for name in ("first", "last"):
            if fields.get(name) is not None:
                fields[name] = Step(*fields[name])
        if fields.get("evidence") is not None:
            fields["evidence"] = Evidence(*fields["evidence"])
        return cls(**fields)


class AlertEngine:
    """Folds rows, or parts of rows, into alerts, in order.

    A live run delivers an update's row in parts (training metrics, then evaluation); the store delivers it whole. A
    rule judges a row once it has all the metrics it needs, so both give the same alerts.
    """

    def __init__(self, rules: Sequence[AlertRule], run: RunContext) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: rule.id))
        self.run = run
        self._states = {rule.id: _RuleState() for rule in self.rules}
        self._clock = Clock()
        self._row = dict[str, float]()
        self._late_row: tuple[int, dict[str, float]] | None = None  # (update, carried metrics) for a late evaluation
        self._last_full = -math.inf  # the last update that every rule judged
        self._due_rules: dict[tuple[bool, tuple[str, ...], tuple[str, ...]], list[AlertRule]] = {}

    def expect_late(self, update: int) -> None:
        """Keep this update's row: an evaluation of its policy arrives later and is judged with it."""
        self._late_row = update, self._carried()

    def fold(self, clock: Clock, metrics: Mapping[str, float]) -> list[AlertChange]:
        """Add a row, or more metrics of the last one; returns the alerts it raised or cleared, by id."""
        if clock.updates < self._clock.updates and self._late_row is not None and clock.updates == self._late_row[0]:
            current_clock = self._clock
            current_row = self._row
            self._row = dict(self._late_row[1])
            changes = self._fold(clock, metrics)
            self._clock = current_clock
            self._row = current_row
            return changes
        if clock.updates != self._clock.updates:
            self._row = self._carried()
        changes = self._fold(clock, metrics)
        if self._late_row is not None and clock.updates == self._late_row[0]:
            self.expect_late(clock.updates)
        return changes

    def _carried(self) -> dict[str, float]:
        return {name: self._row[name] for name in _CARRIED if name in self._row}

    def _fold(self, clock: Clock, metrics: Mapping[str, float]) -> list[AlertChange]:
        self._clock = clock
        self._row |= metrics
        # Only an update's own row has its progress; other measurements may arrive at any time.
        if "time/progress" in metrics and clock.updates >= self._last_full + self.run.every:
            self._last_full = clock.updates
        row = JudgedRow(clock, self._row)
        judged = [self._judge(rule, row) for rule in self._due(metrics)]
        changes = [change for change in judged if change is not None]
        advised = {alert.id: alert for alert in self.alerts()} if changes else {}
        return [change._replace(alert=advised[change.alert.id]) for change in changes]

    def _due(self, new: Mapping[str, float]) -> list[AlertRule]:
        """The rules that have something to judge; cached, because rows come in few shapes."""
        all_rules = self._last_full == self._clock.updates
        shape = (all_rules, tuple(new), tuple(self._row))
        due = self._due_rules.get(shape)
        if due is None:
            candidates = [rule for rule in self.rules if all_rules or rule.late]
            due = self._due_rules[shape] = [rule for rule in candidates if rule.concerns(new, self._row)]
        return due

    def alerts(self) -> list[Alert]:
        """Every rule that was raised at least once, by id."""
        alerts = [self._alert(rule) for rule in self.rules if self._states[rule.id].raised]
        return sorted(agreeing(_first_to_follow(alerts), self.run), key=lambda alert: alert.id)

    def active(self) -> list[Alert]:
        """The alerts that are raised now."""
        return [alert for alert in self.alerts() if alert.active]

    def state(self) -> AlertEngineState:
        """The engine's state as JSON, for a checkpoint; rules about the machine are left out."""
        rules = [rule for rule in self.rules if not rule.of_machine]
        needed = {name for rule in rules for name in rule.exact} | {*_CARRIED}
        row = _finite({name: value for name, value in self._row.items() if name in needed})
        states = {rule.id: self._states[rule.id] for rule in rules}
        saved = {name: state.as_json() for name, state in states.items() if state.judged or state.memory}
        return {
            "clock": list(self._clock._replace(seconds=0.0)),
            "row": row,
            "late_row": None if self._late_row is None else (self._late_row[0], _finite(self._late_row[1])),
            "last_judged_update": None if math.isinf(self._last_full) else self._last_full,
            "rules": saved,
        }

    def restore(self, state: AlertEngineState) -> None:
        """Continue from `state`; rules it does not know start from scratch."""
        self._clock = Clock(*state["clock"])
        self._row = dict(state["row"])
        late_row = state["late_row"]
        self._late_row = None if late_row is None else (late_row[0], dict(late_row[1]))
        self._last_full = -math.inf if state["last_judged_update"] is None else state["last_judged_update"]
        for name, saved in state["rules"].items():
            if name in self._states:
                self._states[name] = _RuleState.from_json(saved)

    def _judge(self, rule: AlertRule, row: JudgedRow) -> AlertChange | None:
        state = self._states[rule.id]
        judged = rule.judge(row, state.memory, self.run)
        if judged is None:
            return None
        if judged.memory is not None:
            state.memory = judged.memory
        if row.progress < rule.after or not judged.counts:
            return None
        self._count(rule, state, row, judged.evidence)
        before = state.active
        state.active = _active(rule, state)
        if state.active == before:
            return None
        state.raised = state.raised or state.active
        state.recent = state.recent if state.active else []  # a cleared rule starts from scratch
        return AlertChange(self._alert(rule), state.active, rule.requests_histograms)

    def _count(self, rule: AlertRule, state: _RuleState, row: JudgedRow, evidence: Evidence | None) -> None:
        again = state.update == row.clock.updates  # more metrics of the row judged last
        state.update = row.clock.updates
        was_failing = again and state.recent[-1:] == [True]
        state.judged += not again
        state.count += evidence is not None and not was_failing
        earlier = state.recent[:-1] if again else state.recent
        state.recent = [*earlier, evidence is not None or was_failing][-max(rule.of, rule.clear_after) :]
        if evidence is not None:
            numbers = {name: float(value) for name, value in evidence.numbers.items() if math.isfinite(value)}
            state.evidence = evidence._replace(numbers=numbers)
            state.last = Step.of(row.clock)
            state.first = state.first or state.last

    def _alert(self, rule: AlertRule) -> Alert:
        state = self._states[rule.id]
        assert state.evidence is not None
        assert state.first is not None
        assert state.last is not None
        advice = rule.advise(self.run, state.evidence)
        return Alert(
            id=rule.id,
            severity=rule.severity,
            title=rule.title,
            metric=state.evidence.metric,
            evidence=state.evidence.text,
            numbers=read_only(state.evidence.numbers),
            count=state.count,
            judged=state.judged,
            first=state.first,
            last=state.last,
            active=state.active,
            advice=advice.text,
            overrides=read_only(advice.overrides),
        )


def _finite(row: Mapping[str, float]) -> dict[str, float]:
    return {name: row[name] for name in sorted(row) if math.isfinite(row[name])}


def _active(rule: AlertRule, state: _RuleState) -> bool:
    """Hysteresis: several failing rows raise an alert, several passing ones in a row clear it."""
    if state.active:
        return any(state.recent[-rule.clear_after :])
    return sum(state.recent[-rule.of :]) >= rule.raise_after


def judge_rows(
    rules: Sequence[AlertRule], run: RunContext, rows: Iterable[tuple[Clock, Mapping[str, float]]]
) -> AlertEngine:
    """An engine that has folded all rows of a run: `judge_rows(rules, run, rows_after(path, 0, ...))`."""
    engine = AlertEngine(rules, run)
    for clock, metrics in rows:
        engine.fold(clock, metrics)
    return engine
