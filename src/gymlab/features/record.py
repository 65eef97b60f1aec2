"""Every update's row into the run's metric store: the truth that consoles, pages and trackers copy."""

from __future__ import annotations

import time

from gymlab.runs.metrics import MetricsWriter
from gymlab.training.events import Control, Ended, Event, Feature, Measured, Started, Updated

COMMIT_SECONDS = 1.0


class Record(Feature):
    """Rows are committed about once a second, for readers, and before every checkpoint, by the barrier."""

    name = "record"

    def __init__(self, writer: MetricsWriter) -> None:
        self._writer = writer
        self._committed = time.monotonic()

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started):
            self._writer.cut_after(event.clock.updates)
        elif isinstance(event, Updated):
            self._writer.append([row.clock._asdict() | dict(row.metrics) for row in event.rows])
            if time.monotonic() - self._committed > COMMIT_SECONDS:
                self.commit()
        elif isinstance(event, Measured) and event.clock.updates > 0:
            self._writer.amend(event.clock.updates, event.metrics)
        elif isinstance(event, Ended):
            self.commit()

    def commit(self) -> None:
        self._writer.commit()
        self._committed = time.monotonic()
