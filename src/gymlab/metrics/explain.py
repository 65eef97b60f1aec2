"""Explanations of metrics: the texts of `gymlab explain`, and the table in the documentation."""

from __future__ import annotations

from gymlab.core.errors import nearest
from gymlab.core.explanation import Explanation
from gymlab.metrics.bounds import bounds_text
from gymlab.metrics.catalogue import METRICS, NAMESPACES, declared, split_task
from gymlab.metrics.metric import Metric

_FOLDS = {"mean": "their mean", "last": "the last", "sum": "their sum", "min": "the lowest", "max": "the highest"}
_DIRECTIONS = {"up": "higher is better", "down": "lower is better", "none": ""}


def names() -> list[str]:
    """The names of all metrics and families."""
    return [metric.name for metric in METRICS]


def explain(name: str) -> list[Explanation]:
    """The metric of this name; a family also by its bare name (`opt/grad_norm/*`, `hp`)."""
    metric = declared(name) or declared(f"{name}/x")
    return [] if metric is None else [_explanation(name, metric)]


def describe(name: str) -> str:
    """The explanation of a metric as text; the nearest name if it is unknown."""
    found = explain(name)
    return found[0].text() if found else f"unknown metric '{name}', nearest: {nearest(name, names()) or 'none'}"


def _explanation(name: str, metric: Metric) -> Explanation:
    name_alone, task = split_task(name)
    facts = {
        "task": task,
        "unit": metric.unit or "that of the setting",
        "bounds": bounds_text(metric),
        "direction": _DIRECTIONS[metric.better],
        "counter": "it never falls" if metric.monotonic else "",
        "taken": taken(metric),
        "healthy": metric.healthy,
        "changed by": ", ".join(metric.settings),
        "family": f"one of {metric.name}" if metric.is_family else "",
    }
    if metric.name == "hp/*" and name.startswith("hp/") and name != metric.name:
        facts["changed by"] = name_alone.removeprefix("hp/")
    return Explanation(name, "metric", metric.help, {key: fact for key, fact in facts.items() if fact})


def metrics_table() -> str:
    """Every metric as Markdown, one table per namespace."""
    parts = []
    for namespace, title in NAMESPACES.items():
        rows = sorted((m for m in METRICS if m.namespace == namespace), key=lambda m: (m.priority, m.name))
        if not rows:  # nothing that ships measures it
            continue
        lines = ["| name | unit | bounds | better | meaning | taken |", "| --- " * 6 + "|"]
        parts += [f"### {title}", "\n".join([*lines, *map(_row, rows)])]
    return "\n\n".join(parts) + "\n"


def taken(metric: Metric) -> str:
    """When it is measured, and how rows that stand for several updates are folded."""
    kind = "histogram of some updates" if metric.histogram else "some updates" if metric.sparse else ""
    return f"{kind or 'every update'}: {_FOLDS[metric.folded]}"


def _row(metric: Metric) -> str:
    direction = metric.better if metric.better != "none" else "–"
    meaning = f"{metric.help} {metric.healthy}".strip()
    cells = (f"`{metric.name}`", metric.unit or "–", bounds_text(metric), direction, meaning, taken(metric))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
