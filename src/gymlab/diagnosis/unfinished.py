"""Runs that are not over or ended badly: the failure as a finding, and what cannot be known yet."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gymlab.alerts.engine import AlertRule
from gymlab.diagnosis.findings import RunFinding
from gymlab.reports.run_facts import Facts

FULL_WINDOW = 100  # episodes
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_COMMAND = re.compile(r"Find out more with: (gymlab [\w ./:@-]+)")  # nothing else that a run's status says


def failure_finding(facts: Facts) -> RunFinding | None:
    """What a failed run failed of; None for any other."""
    if facts.status.get("status") != "failed":
        return None
    reason = str(facts.status.get("stop_reason") or "no reason was written: see its log")
    message = " ".join(reason.partition("Traceback (most recent call last)")[0].split())
    frames = _FRAME.findall(reason)
    place = "" if not frames else " ({}, line {}, in {})".format(*frames[-1])
    command = _COMMAND.search(reason)
    more = [f"`{command[1].strip()}` finds out more."] if command else []
    if message.startswith("env "):
        advice = ["Mend the env, then resume the run. `env.on_error=restart` makes an env anew instead of stopping."]
    else:
        advice = ["Remove the cause, then resume the run."]
    return RunFinding(
        id="run-failed",
        kind="failure",
        severity="critical",
        title="the run failed",
        evidence=f"{message}{place}",
        advice=" ".join([*advice, *more]),
    )


def not_known_yet(facts: Facts, rules: Iterable[AlertRule]) -> list[str]:
    """What the rows of a run that is not finished are too few to say, as sentences without a full stop."""
    row = facts.measured.last
    if not row or facts.status.get("status") == "finished":
        return []
    window = row.get("roll/return_window", 0.0)
    unknown = []
    if window < 1:
        unknown.append("no episode has ended, so no return is known")
    elif window < FULL_WINDOW:
        unknown.append(f"the return is a mean of {window:.0f} episodes, not of {FULL_WINDOW}")
    if not len(facts.measured.evaluations.returns):
        unknown.append("there is no evaluation")
    progress = row.get("time/progress", 0.0)
    waiting = sorted((rule.after, rule.id) for rule in rules if rule.after > progress)
    if waiting:
        named = ", ".join(f"{name} (from {after:.0%})" for after, name in waiting)
        unknown.append(f"{progress:.0%} of the budget is done, and these alerts wait for more: {named}")
    return unknown
