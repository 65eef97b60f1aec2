"""Thinning: one row for several updates: each metric is folded as the catalogue declares, the clock is the last one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from gymlab.core.types import Histogram
from gymlab.metrics.catalogue import metric
from gymlab.metrics.metric import Fold
from gymlab.training.events import FeatureState, UpdateRow

_JOINED: dict[Fold, Callable[[float, float], float]] = {
    "mean": lambda total, value: total + value,
    "sum": lambda total, value: total + value,
    "min": min,
    "max": max,
    "last": lambda _, value: value,
}


@cache
def _fold(name: str) -> Fold:
    return metric(name).folded


class Thinning:
    """Closes a row at every `every`-th update and at the last one. The open row can be saved in a checkpoint."""

    def __init__(self, every: int, last: int | None = None) -> None:
        self.every = every
        self._last = last
        self._values: dict[str, tuple[float, int]] = {}  # joined so far, and how many
        self._histograms: Mapping[str, Histogram] = {}

    def add(self, row: UpdateRow) -> UpdateRow | None:
        """The row that ends with this update, if one does."""
        if self.every == 1 and not self._values:
            return row
        for name, value in row.metrics.items():
            self.join(name, value)
        self._histograms = {**self._histograms, **row.histograms}
        if row.clock.updates % self.every and row.clock.updates != self._last:
            return None
        closed = self.partial(row)
        self._values = {}
        self._histograms = {}
        return closed

    def join(self, name: str, value: float) -> None:
        """Add a value to the open row. NaN counts only if there is no other value."""
        before, count = self._values.get(name, (value, 0))
        if value == value and before == before:  # noqa: PLR0124 - the fastest test for NaN
            joined = value if not count else _JOINED[_fold(name)](before, value)
            self._values[name] = (joined, count + 1)
        elif value == value or not count or _fold(name) == "last":  # noqa: PLR0124
            self._values[name] = (value, 1)

    def partial(self, row: UpdateRow) -> UpdateRow:
        """The open row so far, at the clock of its newest update."""
        values = {
            name: total / count if _fold(name) == "mean" else total for name, (total, count) in self._values.items()
        }
        return UpdateRow(row.clock, values, self._histograms)

    @property
    def open(self) -> bool:
        return bool(self._values)

    def state(self) -> FeatureState:
        """The open row for a checkpoint, without metrics that differ between machines."""
        values = {name: pair for name, pair in self._values.items() if not name.startswith(("time/", "sys/"))}
        if not values:
            return {}
        return {
            "values": {name: [total.hex(), count] for name, (total, count) in values.items()},
            "histograms": {name: [bars.low, bars.high, list(bars.counts)] for name, bars in self._histograms.items()},
        }

    def restore(self, state: FeatureState) -> None:
        """Restore what `state` returned."""
        self._values = {name: (float.fromhex(total), count) for name, (total, count) in state["values"].items()}
        self._histograms = {
            name: Histogram(low, high, tuple(counts)) for name, (low, high, counts) in state["histograms"].items()
        }
