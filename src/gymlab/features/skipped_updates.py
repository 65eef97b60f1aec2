"""WarnSkippedUpdates: warns about updates that are skipped for NaN or infinity (`on_nan: skip`)."""

from __future__ import annotations

import logging

from gymlab.training.events import Control, Event, Feature, FeatureState, Updated

log = logging.getLogger(__name__)


class WarnSkippedUpdates(Feature):
    """Warns at the first one, and whenever the count has doubled since the last warning."""

    name = "skips"

    def __init__(self) -> None:
        self._last_warned_count = 0

    def state(self) -> FeatureState:
        return {"last_warned_count": self._last_warned_count} if self._last_warned_count else {}

    def restore(self, state: FeatureState) -> None:
        self._last_warned_count = state["last_warned_count"]

    def __call__(self, event: Event, control: Control) -> None:
        if not isinstance(event, Updated):
            return
        for row in event.rows:
            skipped = int(row.metrics.get("sys/skipped_updates", 0))
            if skipped and skipped >= 2 * self._last_warned_count:
                log.warning("update %d is skipped: it gave NaN or infinity (%d so far)", row.clock.updates, skipped)
                self._last_warned_count = skipped
