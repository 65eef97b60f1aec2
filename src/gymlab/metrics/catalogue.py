"""The catalogue of all metrics, read by console, reports, exports, trackers, docs and `gymlab explain`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gymlab.metrics import intrinsic_metrics, result_metrics, rollout_metrics, update_metrics
from gymlab.metrics.metric import HEADLINE, UNBOUNDED, Metric

METRICS: tuple[Metric, ...] = (
    *rollout_metrics.METRICS,
    *update_metrics.METRICS,
    *intrinsic_metrics.METRICS,
    *result_metrics.METRICS,
)
NAMESPACES = {
    "clock": "Clocks",
    "roll": "Rollout",
    "eval": "Evaluation",
    "score": "Score",
    "opt": "Optimisation",
    "model": "Learned model",
    "intrinsic": "Intrinsic reward",
    "env": "Environment",
    "time": "Time",
    "hp": "Hyperparameters",
    "sys": "System",
}

COUNTERS = tuple(metric.name for metric in METRICS if metric.monotonic)

_EXACT = {metric.name: metric for metric in METRICS if not metric.is_family}
_FAMILIES = sorted((metric for metric in METRICS if metric.is_family), key=lambda m: len(m.name), reverse=True)
assert len({metric.name for metric in METRICS}) == len(METRICS), "a metric is declared twice"


def split_task(name: str) -> tuple[str, str]:
    """`roll/return_mean@a`, the metric of one task of a run, as its name and `a`; "" where the name has no task."""
    base, _, task = name.rpartition("@")
    return (base, task) if base and task else (name, "")


def declared(name: str) -> Metric | None:
    """The declaration of a name, its own or that of its family; None if there is none. A task has its metric's."""
    name, _ = split_task(name)
    exact = _EXACT.get(name)
    if exact is not None:
        return exact
    return next((m for m in _FAMILIES if name.startswith(m.name[:-1]) and len(name) >= len(m.name)), None)


def metric(name: str) -> Metric:
    """The declaration of a name; a generic one for a user's own metric."""
    return declared(name) or Metric(name, "Not in the catalogue: a metric of your own.", "", ".4g", 99, UNBOUNDED)


def check_names(names: Iterable[str]) -> list[str]:
    """The names without a declaration, sorted."""
    return sorted({name for name in names if declared(name) is None})


def written(name: str, value: float) -> str:
    """A value of a metric at its precision."""
    return metric(name).text(value)


def ordered(names: Iterable[str]) -> list[str]:
    """Names sorted by namespace, priority and name: the order of every table."""
    places = {namespace: place for place, namespace in enumerate(NAMESPACES)}

    def key(name: str) -> tuple[int, str, int, str]:
        known = metric(name)
        return places.get(known.namespace, len(places)), known.namespace, known.priority, name

    return sorted(names, key=key)


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """Names by namespace, both in order."""
    groups: dict[str, list[str]] = {}
    for name in ordered(names):
        groups.setdefault(metric(name).namespace, []).append(name)
    return groups


def headlines(names: Iterable[str]) -> list[str]:
    """The names of headline priority, in order."""
    return [name for name in ordered(names) if metric(name).priority <= HEADLINE]


def decreased_counters(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """Counters (monotonic metrics) that decreased from one row to a later one."""
    both = [name for name in after if name in before and metric(name).monotonic]
    return [name for name in both if after[name] < before[name]]


def reproducible(row: Mapping[str, float]) -> dict[str, float]:
    """A row without the metrics that differ between machines."""
    return {name: value for name, value in row.items() if not name.startswith(("time/", "sys/")) and name != "seconds"}
