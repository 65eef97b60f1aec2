"""Every metric of the lab. Console, reports, exports, trackers, docs and `gymlab explain` read this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gymlab.metrics import result_metrics, rollout_metrics, update_metrics
from gymlab.metrics.metric import HEADLINE, UNBOUNDED, Metric

METRICS: tuple[Metric, ...] = (*rollout_metrics.METRICS, *update_metrics.METRICS, *result_metrics.METRICS)
NAMESPACES = {
    "clock": "Clocks",
    "roll": "Rollout",
    "eval": "Evaluation",
    "score": "Score",
    "opt": "Optimisation",
    "env": "Environment",
    "time": "Time",
    "hp": "Hyperparameters",
    "sys": "System",
}

COUNTERS = tuple(metric.name for metric in METRICS if metric.monotonic)

_EXACT = {metric.name: metric for metric in METRICS if not metric.is_family}
_FAMILIES = sorted((metric for metric in METRICS if metric.is_family), key=lambda m: len(m.name), reverse=True)
assert len({metric.name for metric in METRICS}) == len(METRICS), "a metric is declared twice"


def declared(name: str) -> Metric | None:
    """What was declared about a name, by itself or as one of a family."""
    exact = _EXACT.get(name)
    if exact is not None:
        return exact
    return next((m for m in _FAMILIES if name.startswith(m.name[:-1]) and len(name) >= len(m.name)), None)


def metric(name: str) -> Metric:
    """The same, or a plain stand-in for a metric of the user's own."""
    return declared(name) or Metric(name, "Not in the catalogue: a metric of your own.", "", ".4g", 99, UNBOUNDED)


def check_names(names: Iterable[str]) -> list[str]:
    """Those that nobody declared."""
    return sorted({name for name in names if declared(name) is None})


def written(name: str, value: float) -> str:
    """A value of a metric at its precision."""
    return metric(name).text(value)


def ordered(names: Iterable[str]) -> list[str]:
    """By namespace, then priority, then name: the order of every table."""
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
    """Those worth showing where room is short."""
    return [name for name in ordered(names) if metric(name).priority <= HEADLINE]


def fallen(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """Metrics that only ever rise and did not, from one row to a later one."""
    both = [name for name in after if name in before and metric(name).monotonic]
    return [name for name in both if after[name] < before[name]]
