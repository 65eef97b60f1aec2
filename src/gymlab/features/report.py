"""WriteReport: writes report.md and report.json when a run ends, and its score into the status."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from contextlib import suppress

from gymlab.core.errors import GymlabError
from gymlab.core.types import JsonObject
from gymlab.metrics.bounds import Context, bounds
from gymlab.reports.report import build_report, write_bounds, write_report
from gymlab.reports.run_facts import read_facts
from gymlab.runs.store import RunStore
from gymlab.training.events import Control, Ended, Event, Feature, Measured, Recorded

log = logging.getLogger(__name__)
BOUNDS_SECONDS = 1.0  # between two writes


class WriteReport(Feature):
    """Works from the store alone, after every other feature has handled `Ended`."""

    name = "report"

    def __init__(self, store: RunStore, settings: JsonObject, defaults: JsonObject, context: Context) -> None:
        self._store = store
        self._settings = settings
        self._defaults = defaults
        self._context = context
        self._measured: set[str] = set()
        self._written = 0
        self._at = -math.inf

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Recorded | Measured):
            self._write_bounds(event.rows[-1].metrics if isinstance(event, Recorded) else event.metrics)
        elif isinstance(event, Ended):
            # The status and the last rows are written by other features on `Ended`: the report comes after them.
            control.emit(ReportRequested(event.clock))
        elif isinstance(event, ReportRequested):
            self.write()

    def _write_bounds(self, names: Iterable[str]) -> None:
        """Write the bounds of newly measured metrics, so that pages can draw them while the run trains."""
        self._measured.update(names)
        if len(self._measured) == self._written or time.monotonic() - self._at < BOUNDS_SECONDS:
            return
        self._written = len(self._measured)
        self._at = time.monotonic()
        with suppress(GymlabError, OSError):
            write_bounds(self._store.paths, {name: bounds(name, self._context) for name in sorted(self._measured)})

    def write(self) -> None:
        """Also called for a run that failed, where no `Ended` is delivered."""
        try:
            facts = read_facts(self._store.paths, self._settings)
            limits = {name: bounds(name, self._context) for name in facts.measured.names}
            score = facts.score
            self._store.note(auc=score.auc, steps_to_threshold=score.steps_to_threshold)
            write_report(self._store.paths, build_report(facts, self._defaults, limits))
        except (GymlabError, OSError) as error:  # the run itself is complete
            log.warning("the report could not be written (%s): `gymlab report %s` makes it", error, self._store.run_id)


class ReportRequested(Event):
    """Emitted when all features have handled `Ended`."""
