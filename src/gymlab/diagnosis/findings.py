"""Findings of a diagnosis, and their ranking: causes before their effects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gymlab.alerts.engine import SEVERITIES, Alert, Severity
from gymlab.core.types import Json

# failure: the run failed; fault: numbers went bad; bug: other findings mean nothing; outcome: it only fell short of its
# goal.
Kind = Literal["failure", "fault", "bug", "setting", "alert", "outcome"]


@dataclass(frozen=True)
class RunFinding:
    """One thing that is wrong with a run. `overrides` are by full key, as in a recipe."""

    id: str
    kind: Kind
    severity: Severity
    title: str
    evidence: str
    advice: str
    overrides: dict[str, Json] = field(default_factory=dict)
    metric: str = ""
    since: int | None = None  # env steps; None: from the start
    updates: int = 0  # judged updates that were failing
    share: float = 1.0
    active: bool = True  # still so at the end
    explains: tuple[str, ...] = ()  # ids of findings it causes

    def as_json(self) -> dict[str, Json]:
        return {**vars(self), "explains": list(self.explains), "share": round(self.share, 4)}


def finding_from_alert(alert: Alert, kind: Kind = "alert") -> RunFinding:
    """An alert as a finding."""
    return RunFinding(
        id=alert.id,
        kind=kind,
        severity=alert.severity,
        title=alert.title,
        evidence=alert.evidence,
        advice=alert.advice,
        overrides=dict(alert.overrides),
        metric=alert.metric,
        since=alert.first.env_steps,
        updates=alert.count,
        share=alert.share,
        active=alert.active,
    )


def rank_findings(findings: Iterable[RunFinding], causes: Iterable[tuple[str, str]]) -> list[RunFinding]:
    """The findings with `explains` filled in, the one to act on first.

    `causes` are pairs (cause, effect) of ids. The order is: failure, faults, bugs, other warnings, outcomes, hints;
    within each, causes before effects, then by severity, share of updates, number of findings explained, and time.
    """
    found = {finding.id: finding for finding in findings}
    pairs = [(a, b) for a, b in dict.fromkeys(causes) if a in found and b in found and _can_cause(found[a])]
    effects: dict[str, list[str]] = {a: [] for a in found}
    for cause, effect in pairs:
        effects[cause].append(effect)
    depth = _depths(found, pairs)
    explained = [
        replace(finding, explains=tuple(sorted(_all_effects(name, effects)))) for name, finding in found.items()
    ]
    return sorted(explained, key=lambda f: (_group(f), depth[f.id], *_weight(f)))


def _can_cause(finding: RunFinding) -> bool:
    return finding.severity != "info"


def _weight(finding: RunFinding) -> tuple[float, ...]:
    severity = SEVERITIES.index(finding.severity)
    return (-severity, not finding.active, -round(finding.share, 1), -len(finding.explains), finding.since or 0)


def _group(finding: RunFinding) -> int:
    named = {"failure": 0, "fault": 1, "bug": 2, "outcome": 4}
    return named.get(finding.kind, 5 if finding.severity == "info" else 3)


def _depths(found: Iterable[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Length of the longest chain of causes above each finding."""
    depth = dict.fromkeys(found, 0)
    for _ in range(len(depth)):  # bounded, so cycles end
        for cause, effect in pairs:
            depth[effect] = max(depth[effect], min(depth[cause] + 1, len(depth)))
    return depth


def _all_effects(name: str, effects: dict[str, list[str]]) -> set[str]:
    """The direct and indirect effects of a finding."""
    seen: set[str] = set()
    waiting = list(effects[name])
    while waiting:
        effect = waiting.pop()
        if effect not in seen and effect != name:
            seen.add(effect)
            waiting += effects[effect]
    return seen


def first_actionable(findings: Sequence[RunFinding], *, ended: bool) -> RunFinding | None:
    """The first finding with overrides. Hints (severity info) count only once the run has ended."""
    serious = [finding for finding in findings if ended or finding.severity != "info"]
    return next((finding for finding in serious if finding.overrides), None)
