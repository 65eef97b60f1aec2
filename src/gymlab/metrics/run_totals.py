"""Run totals: metrics that the catalogue declares as the sum or mean of another metric over a run's updates so far."""

from __future__ import annotations

from gymlab.metrics.catalogue import METRICS

_COMPUTED = [(metric.name, *metric.over_run) for metric in METRICS if metric.over_run is not None]
_SOURCES = tuple(dict.fromkeys(source for _, _, source in _COMPUTED))


class RunTotals:
    """Sums over a run's updates. Its state is saved with the states of the features."""

    name = "run_totals"

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}

    def add(self, row: dict[str, float], updates: int) -> None:
        """Add an update's row to the sums, and the metrics computed from them to the row.

        `updates` is the number of updates so far, this one included.
        """
        for source in _SOURCES:
            if source in row:
                self._sums[source] = self._sums.get(source, 0.0) + row[source]
        for name, how, source in _COMPUTED:
            if source in row:
                row[name] = self._sums[source] / (updates if how == "mean" else 1)

    def state(self) -> dict[str, float]:
        """The sums that are not zero."""
        return {source: total for source, total in self._sums.items() if total}

    def restore(self, states: dict[str, dict[str, float]]) -> None:
        """Restore the sums from the states of a checkpoint."""
        self._sums = dict(states.get(self.name, {}))
