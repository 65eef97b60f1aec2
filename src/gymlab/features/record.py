"""Record: writes every update's row to the run's metric store, from which pages and trackers read."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from gymlab.core.clock import Clock
from gymlab.features.row_thinning import Thinning
from gymlab.metrics.catalogue import COUNTERS, decreased_counters
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.training.events import (
    Control,
    Ended,
    Event,
    Feature,
    FeatureState,
    Measured,
    Paused,
    Recorded,
    Started,
    Stopping,
    Updated,
    UpdateRow,
)

log = logging.getLogger(__name__)
COMMIT_SECONDS = 1.0


class Record(Feature):
    """Rows are committed about once a second, for readers, and before every checkpoint, by the barrier.

    A row may stand for several updates. Metrics measured in between, such as an evaluation, get a row of their own;
    only times (`time/`, `sys/`) wait for the next row, so that a run always has the same rows.
    """

    name = "record"

    def __init__(self, writer: MetricsWriter, updates_per_row: int = 1, last_update: int | None = None) -> None:
        self._writer = writer
        self._thinning = Thinning(updates_per_row, last_update)
        self._newest: UpdateRow | None = None
        self._committed = time.monotonic()
        self._spent = 0.0
        self._counters: dict[str, float] = {}

    def state(self) -> FeatureState:
        return self._thinning.state()

    def restore(self, state: FeatureState) -> None:
        self._thinning.restore(state)

    def __call__(self, event: Event, control: Control) -> None:
        began = time.perf_counter()
        if isinstance(event, Started):
            self._writer.cut_after(event.clock.updates)
        elif isinstance(event, Updated):
            self._add(event, control)
        elif isinstance(event, Measured) and event.clock.updates > 0:
            self._measured(event.clock, event.metrics)
        elif isinstance(event, Stopping) and not event.interrupted and self._newest and self._thinning.open:
            # An interrupted run continues with the open row; any other ends with it.
            row = self._thinning.partial(self._newest)
            self._measured(row.clock, row.metrics, alone=True)
            self._writer.add_histograms(row.clock.updates, row.histograms)
        elif isinstance(event, Ended | Paused):  # a paused run is inspected
            self.commit()
        self._spent += time.perf_counter() - began

    def _add(self, event: Updated, control: Control) -> None:
        rows = tuple(closed for row in event.rows if (closed := self._thinning.add(row)) is not None)
        self._newest = event.rows[-1]
        if rows:
            spent = {"time/record": self._spent}
            self._spent = 0.0
            rows = (*rows[:-1], rows[-1]._replace(metrics={**rows[-1].metrics, **spent}))
            self._writer.append([row.clock._asdict() | dict(row.metrics) for row in rows])
            for row in rows:
                self._check_counters(row)
                if row.histograms:
                    self._writer.add_histograms(row.clock.updates, row.histograms)
            control.emit(Recorded(rows[-1].clock, rows))
        if time.monotonic() - self._committed > COMMIT_SECONDS:
            self.commit()

    def _measured(self, clock: Clock, values: Mapping[str, float], *, alone: bool = False) -> None:
        """Add to the row of that update or, if there is none, write a row of its own."""
        try:
            self._writer.amend(clock.updates, values)
            return
        except KeyError:
            if self._thinning.every == 1 and not alone:
                raise
        if not alone and all(name.startswith(("time/", "sys/")) for name in values):
            for name, value in values.items():
                self._thinning.join(name, value)
        else:
            self._writer.append([clock._asdict() | dict(values)])

    def _check_counters(self, row: UpdateRow) -> None:
        """Warn about a counter that falls: a bug, which must not end a run."""
        now = {name: row.metrics[name] for name in COUNTERS if name in row.metrics}
        for name in decreased_counters(self._counters, now):
            before = self._counters[name]
            after = now[name]
            log.warning(
                "%s fell from %g to %g in update %d: it must never fall", name, before, after, row.clock.updates
            )
        self._counters |= now

    def commit(self) -> None:
        self._writer.commit()
        self._committed = time.monotonic()

    def last(self) -> dict[str, float]:
        """The newest committed row; {} when there is none yet."""
        return self._writer.last()
