"""Several runs in one chart: each by itself, or the mean of those that are alike with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gymlab.runs.metrics_reader import Curve

_POINTS = 200
_RESAMPLES = 500


def mean_of(traces: Sequence[Curve]) -> Curve:
    """The mean of runs over the stretch that all of them have, with the 95 % bootstrap interval at each point.

    One run alone has no interval: its line is itself.
    """
    found = [trace for trace in traces if len(trace.x) > 1]
    if not found:
        return traces[0]
    start = max(trace.x[0] for trace in found)
    end = min(trace.x[-1] for trace in found)
    grid = np.linspace(start, max(end, start), _POINTS)
    values = np.stack([np.interp(grid, trace.x, trace.y) for trace in found])  # (runs, points)
    middle = values.mean(0)
    if len(found) == 1:
        return Curve(grid, middle, middle, middle)
    chosen = np.random.default_rng(0).integers(len(found), size=(_RESAMPLES, len(found)))
    low, high = np.quantile(values[chosen].mean(1), [0.025, 0.975], axis=0)
    return Curve(grid, middle, low, high)


def by_group(traces: Mapping[str, Curve], groups: Mapping[str, str]) -> dict[str, Curve]:
    """The mean of each group of runs, named with its size."""
    members: dict[str, list[Curve]] = {}
    for run_id, trace in traces.items():
        members.setdefault(groups[run_id], []).append(trace)
    return {f"{name} (n={len(found)})": mean_of(found) for name, found in members.items()}
