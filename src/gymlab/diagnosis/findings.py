"""What was found wrong with a run, and in which order to believe it: causes before what they bring about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gymlab.alerts.engine import SEVERITIES, Alert, Severity

# From numbers that went bad, over bugs that make all else meaningless, to what only says that a run fell short.
Kind = Literal["fault", "bug", "setting", "alert", "outcome"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `overrides` are by full key, as in a recipe."""

    id: str
    kind: Kind
    severity: Severity
    title: str
    evidence: str
    advice: str
    overrides: dict[str, Any] = field(default_factory=dict)
    metric: str = ""
    since: int | None = None  # env steps; None: from the start
    updates: int = 0  # judged updates that were failing
    share: float = 1.0
    active: bool = True  # still so at the end
    explains: tuple[str, ...] = ()  # ids of findings it brings about

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "explains": list(self.explains), "share": round(self.share, 4)}


def of_alert(alert: Alert, kind: Kind = "alert") -> Finding:
    """An alert as a finding."""
    return Finding(
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


def ranked(findings: Iterable[Finding], causes: Iterable[tuple[str, str]]) -> list[Finding]:
    """The findings, each with what it explains, the one to act on first.

    `causes` are pairs (cause, effect) of ids. Faults come first, then bugs, then the rest: whatever nothing else
    explains before what it brings about, then by severity, by the share of updates, by how much it explains, and the
    earlier first. That a run fell short comes after all that is wrong and before what is merely worth knowing.
    """
    found = {finding.id: finding for finding in findings}
    pairs = [(a, b) for a, b in dict.fromkeys(causes) if a in found and b in found and _can_cause(found[a])]
    effects: dict[str, list[str]] = {a: [] for a in found}
    for cause, effect in pairs:
        effects[cause].append(effect)
    depth = _depths(found, pairs)
    told = [replace(finding, explains=tuple(sorted(_reached(name, effects)))) for name, finding in found.items()]
    return sorted(told, key=lambda f: (_place(f), depth[f.id], *_weight(f)))


def _can_cause(finding: Finding) -> bool:
    return finding.severity != "info"


def _weight(finding: Finding) -> tuple[float, ...]:
    severity = SEVERITIES.index(finding.severity)
    return (-severity, not finding.active, -round(finding.share, 1), -len(finding.explains), finding.since or 0)


def _place(finding: Finding) -> int:
    if finding.kind in ("fault", "bug", "outcome"):
        return {"fault": 0, "bug": 1, "outcome": 3}[finding.kind]
    return 4 if finding.severity == "info" else 2


def _depths(found: Iterable[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """How many causes stand above each finding, along the longest chain."""
    depth = dict.fromkeys(found, 0)
    for _ in range(len(depth)):  # which ends even where causes go in a circle
        for cause, effect in pairs:
            depth[effect] = max(depth[effect], min(depth[cause] + 1, len(depth)))
    return depth


def _reached(name: str, effects: dict[str, list[str]]) -> set[str]:
    """Everything a finding brings about, directly and through others."""
    seen: set[str] = set()
    waiting = list(effects[name])
    while waiting:
        effect = waiting.pop()
        if effect not in seen and effect != name:
            seen.add(effect)
            waiting += effects[effect]
    return seen


def top(findings: Sequence[Finding], *, ended: bool) -> Finding | None:
    """The finding to act on: the first that says what to set. Mere hints count once a run has ended without success."""
    serious = [finding for finding in findings if ended or finding.severity != "info"]
    return next((finding for finding in serious if finding.overrides), None)
