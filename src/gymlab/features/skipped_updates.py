"""WarnSkippedUpdates: warns about updates that are skipped for NaN or infinity (`on_nan: skip`)."""

from __future__ import annotations

import logging
from typing import Any

from gymlab.training.events import Control, Event, Feature, Updated

log = logging.getLogger(__name__)


class WarnSkippedUpdates(Feature):
    """Warns at the first one, and whenever the count has doubled since the last warning."""

    name = "skips"

    def __init__(self) -> None:
        self._reported = 0

    def state(self) -> dict[str, Any]:
        return {"told": self._reported} if self._reported else {}

    def restore(self, state: dict[str, Any]) -> None:
        self._reported = state["told"]

    def __call__(self, event: Event, control: Control) -> None:
        if not isinstance(event, Updated):
            return
        for row in event.rows:
            skipped = int(row.metrics.get("sys/skipped_updates", 0))
            if skipped and skipped >= 2 * self._reported:
                log.warning("update %d is skipped: it gave NaN or infinity (%d so far)", row.clock.updates, skipped)
                self._reported = skipped
