"""Rows in, alerts out: the same from a run that is going on and from its metric store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gymlab.alerts.alert import Alert, Step
from gymlab.alerts.context import Case
from gymlab.alerts.rule import Evidence, Memory, Row, Rule
from gymlab.core.clock import Clock

# Known from the last row where an evaluation has none of its own, and across a resume.
_CARRIED = ("time/progress", "roll/return_mean", "roll/return_min")


class Change(NamedTuple):
    """An alert that was raised or cleared just now."""

    alert: Alert
    raised: bool
    wants_distributions: bool


@dataclass
class _Track:
    """What is known of one rule."""

    judged: int = 0
    count: int = 0
    recent: list[bool] = field(default_factory=list)
    update: int = -1  # the last one judged
    active: bool = False
    raised: bool = False  # ever
    first: Step | None = None
    last: Step | None = None
    evidence: Evidence | None = None
    memory: Memory = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if value not in (None, [], {})}
        return fields | {"recent": "".join("01"[sick] for sick in self.recent)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> _Track:
        fields = {**data, "recent": [mark == "1" for mark in data["recent"]]}
        for name in ("first", "last"):
            if fields.get(name) is not None:
                fields[name] = Step(*fields[name])
        if fields.get("evidence") is not None:
            fields["evidence"] = Evidence(*fields["evidence"])
        return cls(**fields)


class Watch:
    """Folds rows, or parts of rows, in order.

    A live run gives an update's row in parts (what was learnt, then what was evaluated); the store gives it whole. A
    rule judges as soon as the row has all it needs, so both come to the same.
    """

    def __init__(self, rules: Sequence[Rule], case: Case) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: rule.id))
        self.case = case
        self._tracks = {rule.id: _Track() for rule in self.rules}
        self._clock = Clock()
        self._row = dict[str, float]()
        self._kept: tuple[int, dict[str, float]] | None = None  # (update, its row), for what comes late
        self._looked = -math.inf  # the last update at which every rule had its turn
        self._shapes: dict[tuple[bool, tuple[str, ...], tuple[str, ...]], list[Rule]] = {}

    def keep(self, update: int) -> None:
        """An evaluation of the policy after this update will come later: it is to be judged by that update's row."""
        self._kept = update, self._carried()

    def fold(self, clock: Clock, metrics: Mapping[str, float]) -> list[Change]:
        """A row, or more of the same one; what was raised or cleared by it, by id."""
        if clock.updates < self._clock.updates and self._kept is not None and clock.updates == self._kept[0]:
            now = self._clock, self._row
            self._clock, self._row = clock, dict(self._kept[1])
            changes = self._fold(clock, metrics)
            self._clock, self._row = now
            return changes
        if clock.updates != self._clock.updates:
            self._row = self._carried()
        changes = self._fold(clock, metrics)
        if self._kept is not None and clock.updates == self._kept[0]:
            self.keep(clock.updates)
        return changes

    def _carried(self) -> dict[str, float]:
        return {name: self._row[name] for name in _CARRIED if name in self._row}

    def _fold(self, clock: Clock, metrics: Mapping[str, float]) -> list[Change]:
        self._clock = clock
        self._row |= metrics
        # An update's own row has its progress; what is measured beside it has not, and may come at any time.
        if "time/progress" in metrics and clock.updates >= self._looked + self.case.every:
            self._looked = clock.updates
        row = Row(clock, self._row)
        changes = [self._judge(rule, row) for rule in self._due(metrics)]
        return [change for change in changes if change is not None]

    def _due(self, new: Mapping[str, float]) -> list[Rule]:
        """The rules that have something to judge. Rows come in few shapes, so the answer is kept."""
        everyone = self._looked == self._clock.updates
        shape = (everyone, tuple(new), tuple(self._row))
        due = self._shapes.get(shape)
        if due is None:
            asked = [rule for rule in self.rules if everyone or rule.late]
            due = self._shapes[shape] = [rule for rule in asked if rule.concerns(new, self._row)]
        return due

    def alerts(self) -> list[Alert]:
        """Every rule that was raised at least once, by id."""
        return [self._alert(rule) for rule in self.rules if self._tracks[rule.id].raised]

    def active(self) -> list[Alert]:
        """Those that are raised now."""
        return [alert for alert in self.alerts() if alert.active]

    def state(self) -> dict[str, Any]:
        """All that is needed to go on, as JSON; what was found about the machine is left out."""
        rules = [rule for rule in self.rules if not rule.of_machine]
        needed = {name for rule in rules for name in rule.exact} | {*_CARRIED}
        row = _finite({name: value for name, value in self._row.items() if name in needed})
        known = {rule.id: self._tracks[rule.id] for rule in rules}
        tracks = {name: track.as_json() for name, track in known.items() if track.judged or track.memory}
        return {
            "clock": list(self._clock._replace(seconds=0.0)),
            "row": row,
            "kept": None if self._kept is None else [self._kept[0], _finite(self._kept[1])],
            "looked": None if math.isinf(self._looked) else self._looked,
            "rules": tracks,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there. Rules that did not exist then begin afresh."""
        self._clock = Clock(*state["clock"])
        self._row = dict(state["row"])
        kept = state["kept"]
        self._kept = None if kept is None else (kept[0], dict(kept[1]))
        self._looked = -math.inf if state["looked"] is None else state["looked"]
        for name, track in state["rules"].items():
            if name in self._tracks:
                self._tracks[name] = _Track.from_json(track)

    def _judge(self, rule: Rule, row: Row) -> Change | None:
        track = self._tracks[rule.id]
        judged = rule.judge(row, track.memory, self.case)
        if judged is None:
            return None
        if judged.memory is not None:
            track.memory = judged.memory
        if row.progress < rule.after:
            return None
        self._count(rule, track, row, judged.evidence)
        before = track.active
        track.active = _active(rule, track)
        if track.active == before:
            return None
        track.raised = track.raised or track.active
        track.recent = track.recent if track.active else []  # what is over is not held against it
        return Change(self._alert(rule), track.active, rule.wants_distributions)

    def _count(self, rule: Rule, track: _Track, row: Row, evidence: Evidence | None) -> None:
        again = track.update == row.clock.updates  # the same row has grown
        track.update = row.clock.updates
        was_sick = again and track.recent[-1:] == [True]
        track.judged += not again
        track.count += evidence is not None and not was_sick
        kept = track.recent[:-1] if again else track.recent
        track.recent = [*kept, evidence is not None or was_sick][-max(rule.of, rule.clear_after) :]
        if evidence is not None:
            numbers = {name: float(value) for name, value in evidence.numbers.items() if math.isfinite(value)}
            track.evidence = evidence._replace(numbers=numbers)
            track.last = Step.of(row.clock)
            track.first = track.first or track.last

    def _alert(self, rule: Rule) -> Alert:
        track = self._tracks[rule.id]
        assert track.evidence is not None
        assert track.first is not None
        assert track.last is not None
        advice = rule.advise(self.case, track.evidence)
        return Alert(
            id=rule.id,
            severity=rule.severity,
            title=rule.title,
            metric=track.evidence.metric,
            evidence=track.evidence.text,
            numbers=track.evidence.numbers,
            count=track.count,
            judged=track.judged,
            first=track.first,
            last=track.last,
            active=track.active,
            advice=advice.text,
            overrides=advice.overrides,
        )


def _finite(row: Mapping[str, float]) -> dict[str, float]:
    return {name: row[name] for name in sorted(row) if math.isfinite(row[name])}


def _active(rule: Rule, track: _Track) -> bool:
    """Hysteresis: it takes several sick rows to raise an alert, and several well ones in a row to clear it."""
    if track.active:
        return any(track.recent[-rule.clear_after :])
    return sum(track.recent[-rule.of :]) >= rule.raise_after


def watch_rows(rules: Sequence[Rule], case: Case, rows: Iterable[tuple[Clock, Mapping[str, float]]]) -> Watch:
    """All rows of a run at once: `watch_rows(rules, case, rows_after(path, 0, ...))`."""
    watch = Watch(rules, case)
    for clock, metrics in rows:
        watch.fold(clock, metrics)
    return watch
