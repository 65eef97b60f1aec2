"""Says so when updates are left out because their numbers went bad (`on_nan: skip`)."""

from __future__ import annotations

import logging
from typing import Any

from gymlab.training.events import Control, Event, Feature, Updated

log = logging.getLogger(__name__)


class Skips(Feature):
    """Warns at the first one, and whenever there are twice as many as were told last."""

    name = "skips"

    def __init__(self) -> None:
        self._told = 0

    def state(self) -> dict[str, Any]:
        return {"told": self._told} if self._told else {}

    def restore(self, state: dict[str, Any]) -> None:
        self._told = state["told"]

    def __call__(self, event: Event, control: Control) -> None:
        if not isinstance(event, Updated):
            return
        for row in event.rows:
            skipped = int(row.metrics.get("sys/skipped_updates", 0))
            if skipped and skipped >= 2 * self._told:
                log.warning("update %d is skipped: its numbers went bad (%d so far)", row.clock.updates, skipped)
                self._told = skipped
