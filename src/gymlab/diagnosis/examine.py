"""Diagnose a run from its folder: ranked findings and a verdict. Imports none of the user's code, writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from gymlab.alerts.agreement import agreeing
from gymlab.alerts.causes import BUGS, CAUSES
from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Alert, AlertRule, judge_rows
from gymlab.alerts.overrides import changed, lower_rate
from gymlab.alerts.registry import rules_from_settings
from gymlab.core.errors import GymlabError, RunError
from gymlab.diagnosis.findings import RunFinding, finding_from_alert, first_actionable, rank_findings
from gymlab.diagnosis.unfinished import failure_finding, not_known_yet
from gymlab.diagnosis.unsolved import Trend, fit_trend, unsolved_finding
from gymlab.diagnosis.unusual_settings import UnusualSetting, unusual_settings
from gymlab.metrics.catalogue import metric
from gymlab.recipes.keys import read_settings
from gymlab.reports.fault_bundle import Bundle, bundles, read_bundle
from gymlab.reports.report import context_of, known_bounds
from gymlab.reports.run_facts import Facts, read_facts
from gymlab.runs.metrics_reader import CurveReader, StoredRow, rows_after
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import AlertRecord
from gymlab.runs.status import read_record


class Diagnosis(NamedTuple):
    """The result of `examine`."""

    facts: Facts
    findings: list[RunFinding]  # the one to act on first
    alerts: list[Alert]
    fault: Bundle | None  # the newest numerical fault
    faults: list[int]  # updates
    trend: Trend | None  # of the training return
    unknown: list[str]  # what it is too early to say

    @property
    def solved(self) -> bool | None:
        known = self.facts.summary.get("solved")
        return known if isinstance(known, bool) else None

    @property
    def remedy(self) -> RunFinding | None:
        """The finding whose overrides to try next; None where the run is solved or no finding has any."""
        ended = self.facts.status.get("status") == "finished"
        return None if self.solved and ended else first_actionable(self.findings, ended=ended)


def examine(paths: RunPaths) -> Diagnosis:
    """Diagnose a run, whether it is running, has ended, crashed or was downloaded."""
    facts = read_facts(paths, read_settings(paths.inside(paths.recipe)))
    run = RunContext(context_of(facts.settings), known_bounds(facts))
    found = bundles(paths)
    fault = read_bundle(found[0]) if found else None
    alerts = read_alerts(facts, run)
    trend = _trend(paths.metrics)
    findings = find_all(facts, run, alerts, fault, trend)
    unknown = not_known_yet(facts, _rules(facts))
    return Diagnosis(facts, findings, alerts, fault, [int(path.name) for path in found], trend, unknown)


def _rules(facts: Facts) -> tuple[AlertRule, ...]:
    """The run's alert rules; () where those of its recipe cannot be read."""
    try:
        return rules_from_settings(facts.settings)
    except ValueError:
        return ()


def find_all(
    facts: Facts, run: RunContext, alerts: Sequence[Alert], fault: Bundle | None, trend: Trend | None
) -> list[RunFinding]:
    """All findings, ranked. Pure."""
    findings = [finding_from_alert(alert, "bug" if alert.id in BUGS else "alert") for alert in alerts]
    if fault is not None:
        passed = facts.measured.last.get("updates", 0) >= fault.report["update"]
        findings.append(finding_from_fault(fault, run, passed=passed))
    failure = failure_finding(facts)
    if failure is not None and not any(finding.kind == "fault" for finding in findings):
        findings.append(failure)  # a numerical fault says it better
    serious = [finding for finding in findings if finding.severity != "info"]
    poor = facts.summary.get("solved") is not True and (serious or not (trend and trend.rising))
    unusual = unusual_settings(run) if poor and facts.measured.last else []
    findings += [_finding_from_setting(setting) for setting in unusual]
    unsolved = unsolved_finding(facts, trend)
    if unsolved is not None:
        findings.append(unsolved)
    causes = [*CAUSES, *_setting_causes(unusual, findings)]
    return agreeing(rank_findings(findings, causes), run, causes)


def finding_from_fault(fault: Bundle, run: RunContext, *, passed: bool) -> RunFinding:
    """A numerical fault as a finding; `passed`: the run has since continued beyond it, so it is only an alert."""
    report = fault.report
    place = report["findings"][0].get("place") if report["findings"] else None
    lower = lower_rate(run, 0.1) if place not in ("observation", "reward", "advantage", "state") else {}
    scale = changed(run, "normalize.reward", True) if place in ("advantage", "state") else {}
    return RunFinding(
        id="numerical-fault",
        kind="alert" if passed else "fault",
        severity="warning" if passed else "critical",
        title="numbers went bad" + (", and the run has since gone past it" if passed else ""),
        evidence=f"update {report['update']}: {report['message'].partition('; then ')[0]}",
        advice=f"Try {'; '.join(map(str, report['advice']))}.",
        overrides={**lower, **scale},
        since=report["env_steps"],
        active=not passed,
    )


def read_alerts(facts: Facts, run: RunContext) -> list[Alert]:
    """The alerts of a run from its `alerts.json`, which is written at checkpoints and at the end.

    Where a run has not ended properly its metrics are judged again; of both, the one that judged more rows counts.
    """
    written = _read_alerts_file(facts.paths)
    if written is not None and facts.status.get("status") in ("finished", "stopped"):
        return written
    try:
        judged = judge_rows(rules_from_settings(facts.settings), run, _rows(facts.paths.metrics)).alerts()
    except (GymlabError, OSError, ValueError):  # no store, or unreadable custom rules
        judged = []
    newest = {alert.id: alert for alert in sorted([*(written or []), *judged], key=lambda alert: alert.judged)}
    return [newest[name] for name in sorted(newest)]


def _read_alerts_file(paths: RunPaths) -> list[Alert] | None:
    """The alerts in `alerts.json`; None where the file is missing or damaged."""
    try:
        stored = cast("list[AlertRecord]", read_record(paths.inside(paths.alerts))["alerts"])
        return [Alert.from_json(entry) for entry in stored]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _rows(path: Path) -> Iterator[StoredRow]:
    done = 0
    while found := rows_after(path, done, limit=1000, settled=False):
        yield from found
        done = found[-1].clock.updates


def _finding_from_setting(unusual: UnusualSetting) -> RunFinding:
    tried = ", ".join(f"{key}={value}" for key, value in unusual.overrides.items())
    return RunFinding(
        id=unusual.id,
        kind="setting",
        severity="critical" if unusual.distance >= 1 else "warning",
        title="a setting that few runs learn with",
        evidence=unusual.text,
        advice=f"{unusual.consequence[0].upper()}{unusual.consequence[1:]}. Try {tried}.",
        overrides=unusual.overrides,
    )


def _setting_causes(unusual: Iterable[UnusualSetting], findings: Sequence[RunFinding]) -> list[tuple[str, str]]:
    """(cause, effect) pairs: an unusual setting explains findings about metrics that it moves."""
    pairs = []
    for setting in unusual:
        leaf = setting.key.rpartition(".")[2]
        moved = [
            f.id for f in findings if f.kind in ("alert", "outcome") and leaf in _leaves(metric(f.metric).settings)
        ]
        pairs += [(setting.id, name) for name in moved]
    return pairs


def _leaves(keys: Iterable[str]) -> set[str]:
    return {key.rpartition(".")[2] for key in keys}


def _trend(path: Path) -> Trend | None:
    try:
        with CurveReader(path) as reader:
            curve = reader.curves(["roll/return_mean"], "env_steps", 200)["roll/return_mean"]
    except RunError:
        return None
    return fit_trend(curve.x, curve.y)


def verdict(diagnosis: Diagnosis) -> str:
    """The diagnosis in one sentence."""
    facts = diagnosis.facts
    status = facts.status.get("status")
    if any(finding.kind == "fault" for finding in diagnosis.findings):
        return "its numbers went bad"
    if any(finding.kind == "failure" for finding in diagnosis.findings):
        return "it failed; the first finding is why"
    if not facts.measured.last:
        return _nothing_measured(facts)
    if diagnosis.solved:
        return "solved" + ("; what was seen on the way is listed below" if diagnosis.findings else ": nothing is wrong")
    if any(finding.severity != "info" for finding in diagnosis.findings):
        return "not solved" if diagnosis.solved is False else f"{status}"
    if status == "running":
        return "nothing is wrong so far"
    if status in ("stopped", "crashed"):
        return "nothing is wrong with its numbers; it ended before its budget"
    if facts.solved_at is None:
        return "nothing is wrong; no return is known that counts as solved (env.solved_at)"
    if diagnosis.trend is None:
        return "nothing is wrong, but too few episodes ended to say where the return was going"
    return "no setting or metric stands out"


def _nothing_measured(facts: Facts) -> str:
    if facts.status.get("status") == "running":
        return "its first update is not done yet: look again later, or gymlab logs RUN --follow"
    if facts.clock.get("updates"):
        return "its metrics are missing (metrics.db), so nothing can be said about them"
    return "nothing was measured: the run ended before its first update. Look at its log: gymlab logs RUN"


def as_json(diagnosis: Diagnosis) -> dict[str, object]:
    """The diagnosis as JSON."""
    remedy = diagnosis.remedy
    return {
        "solved": diagnosis.solved,
        "verdict": verdict(diagnosis),
        "findings": [finding.as_json() for finding in diagnosis.findings],
        "not_known_yet": diagnosis.unknown,
        "alerts": [alert.as_json() for alert in diagnosis.alerts],
        "remedy": None if remedy is None else {"finding": remedy.id, "overrides": remedy.overrides},
    }
