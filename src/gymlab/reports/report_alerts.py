"""The report's section on alerts."""

from __future__ import annotations

from typing import Any

from gymlab.core.format import format_count
from gymlab.reports.run_facts import Facts
from gymlab.reports.sections import Section, shown, table
from gymlab.runs.status import read_record

_FIELDS = ("id", "severity", "title", "evidence", "advice")


def alerts(facts: Facts) -> Section | None:
    """What went wrong, how often and what to change; None where nothing watched the run."""
    found = read_record(facts.paths.alerts).get("alerts")
    if not isinstance(found, list):
        return None
    told = sorted((alert for alert in found if _whole(alert)), key=lambda alert: str(alert["id"]))
    if not told:
        return Section("alerts", "Alerts", ["None."], [])
    rows = [
        (f"`{shown(alert['id'])}`", shown(alert["severity"]), _often(alert), _when(alert), shown(alert["evidence"]))
        for alert in told
    ]
    lines = table(("alert", "severity", "failing updates", "first to last", "latest evidence"), rows)
    advice = [f"- `{shown(alert['id'])}`: {shown(alert['title'])}. {shown(alert['advice'])}" for alert in told]
    return Section("alerts", "Alerts", [*lines, "", *advice], told)


def _whole(alert: Any) -> bool:
    return isinstance(alert, dict) and all(isinstance(alert.get(name), str) for name in _FIELDS)


def _often(alert: dict[str, Any]) -> str:
    count = alert.get("count")
    judged = alert.get("judged")
    if not isinstance(count, int) or not isinstance(judged, int) or judged < 1:
        return "-"
    return f"{count} of {judged} ({count / judged:.0%}){'' if alert.get('active') else ', cleared'}"


def _when(alert: dict[str, Any]) -> str:
    steps = [alert[name].get("env_steps") if isinstance(alert.get(name), dict) else None for name in ("first", "last")]
    texts = [format_count(step) if isinstance(step, int | float) else "-" for step in steps]
    return f"{' to '.join(dict.fromkeys(texts))} env_steps"
