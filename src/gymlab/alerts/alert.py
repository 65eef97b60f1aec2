"""What a rule has found in a run, as data: the shape of an entry in `alerts.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from gymlab.alerts.rule import SEVERITIES, Severity
from gymlab.core.clock import Clock

FORMAT = 1


class Step(NamedTuple):
    """Where in a run, without the time of day."""

    updates: int
    vec_steps: int
    env_steps: int

    @classmethod
    def of(cls, clock: Clock) -> Step:
        return cls(clock.updates, clock.vec_steps, clock.env_steps)


@dataclass(frozen=True)
class Alert:
    """One rule that was raised at least once."""

    id: str
    severity: Severity
    title: str
    metric: str  # the one that shows it
    evidence: str  # of the latest sick row
    numbers: dict[str, float]
    count: int  # judged rows that were sick
    judged: int
    first: Step  # the first sick row
    last: Step  # the latest
    active: bool
    advice: str
    overrides: dict[str, Any]  # by full key: what to try

    @property
    def share(self) -> float:
        """Of the judged rows."""
        return self.count / self.judged if self.judged else 0.0

    def as_json(self) -> dict[str, Any]:
        steps = {"first": self.first._asdict(), "last": self.last._asdict()}
        return {**vars(self), **steps, "share": round(self.share, 4)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Alert:
        given = {field.name: data[field.name] for field in fields(cls)}
        return cls(**given | {name: Step(**data[name]) for name in ("first", "last")})


def alerts_json(alerts: Iterable[Alert]) -> dict[str, Any]:
    """`alerts.json`."""
    return {"format": FORMAT, "alerts": [alert.as_json() for alert in sorted(alerts, key=lambda alert: alert.id)]}


def by_weight(alerts: Iterable[Alert]) -> list[Alert]:
    """The worst first: by severity, then by how much of the run they spoilt, then by id."""
    return sorted(alerts, key=lambda a: (-SEVERITIES.index(a.severity), -a.share, a.id))
