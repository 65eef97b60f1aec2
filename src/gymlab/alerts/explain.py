"""Alert rules as text: `gymlab explain ALERT` and the reference page docs/reference/alerts.md."""

from __future__ import annotations

from gymlab.alerts import registry
from gymlab.alerts.engine import EVERYTHING, AlertRule
from gymlab.core.explanation import Explanation

HEAD = """\
<!-- Written by docs/generate.py (make docs) from gymlab.alerts.explain: edit it there. -->

# Alerts

What gymlab watches for while a run trains. An alert is raised once enough of the last judged updates were failing,
and cleared after enough passing ones; it counts the failing updates, keeps the first and the last, and says which
setting to change and to what. `runs/<id>/alerts.json` and the report list them by id, `gymlab explain ID` tells more.
Of runs with more than 1,000 updates about 1,000 are judged. `alerts: {off: [ID]}` in a recipe turns rules off, and
`alerts: {rules: [...]}` (or `rules: ./file.yaml`) adds rules:

```yaml
alerts:
  off: [speed-drop]
  rules:
    - id: long-episodes
      metric: roll/length_mean
      above: 900            # above, below or nan: true
      for: 3 of 5           # judged updates
      after: 10%            # of the budget
      severity: info        # info, warning (the default) or critical
      advice: Episodes hit the time limit.
      try: {ppo.gamma: 0.999, ppo.learning_rate: x0.5}   # x0.5: half of what it is
```
"""


def names() -> list[str]:
    """The ids that can be explained."""
    return registry.names()


def explain(name: str) -> list[Explanation]:
    """The rule of this id."""
    return [_explanation(rule, algorithms) for rule, algorithms in registry.all_rules() if rule.id == name]


def _explanation(rule: AlertRule, algorithms: tuple[str, ...]) -> Explanation:
    facts = {
        "severity": rule.severity,
        "metrics": _metrics(rule),
        "raised": _raised(rule),
        "cleared": f"after {_updates(rule.clear_after)} without it",
        "for": ", ".join(algorithms),
        "turn off": f"alerts.off=[{rule.id}]",
    }
    return Explanation(rule.id, "alert", rule.help, {title: fact for title, fact in facts.items() if fact})


def _metrics(rule: AlertRule) -> str:
    return "every metric" if rule.metrics == (EVERYTHING,) else ", ".join(rule.metrics)


def _raised(rule: AlertRule) -> str:
    often = f"{rule.raise_after} of {_updates(rule.of)}" if rule.of > rule.raise_after else f"{_updates(rule.of)}"
    return f"after {often}" + (f", from {rule.after:.0%} of the budget on" if rule.after else "")


def _updates(count: int) -> str:
    return f"{count} judged update{'s' * (count != 1)}"


def table() -> str:
    """Every rule as Markdown."""
    rows = ["| id | severity | for | raised | meaning |", "| --- | --- | --- | --- | --- |"]
    for rule, algorithms in registry.all_rules():
        cells = (f"`{rule.id}`", rule.severity, ", ".join(algorithms) or "all", _raised(rule), rule.help)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def page() -> str:
    """docs/reference/alerts.md."""
    return f"{HEAD}\n{table()}\n"
