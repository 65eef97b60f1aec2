"""Asks for checkpoints: at the start, at a cadence, at the best evaluation so far and at the end."""

from __future__ import annotations

import math
from typing import Any

from gymlab.core.period import Period
from gymlab.training.events import CheckpointWanted, Control, Evaluated, Event, Feature, Started, Stopping, Updated


class Checkpoint(Feature):
    """Later wins a tie: of two equal policies the one with more training is kept."""

    name = "checkpoint"

    def __init__(self, period: Period, solved_by: str) -> None:
        self._period, self._solved_by = period, solved_by
        self._best = -math.inf

    def due(self, updates: int) -> int:
        return self._period.due(updates)

    def state(self) -> dict[str, Any]:
        return {"best": None if math.isinf(self._best) else self._best}

    def restore(self, state: dict[str, Any]) -> None:
        self._best = -math.inf if state["best"] is None else state["best"]

    def __call__(self, event: Event, control: Control) -> None:
        if (isinstance(event, Started) and not event.resumed) or (
            isinstance(event, Updated) and self._period.fires(event.clock.updates)
        ):
            control.emit(CheckpointWanted(event.clock, "periodic"))
        elif isinstance(event, Evaluated):
            score = event.evaluation.judged_by(self._solved_by)
            if score >= self._best:
                self._best = score
                control.emit(CheckpointWanted(event.clock, "best"))
        elif isinstance(event, Stopping):
            control.emit(CheckpointWanted(event.clock, "last"))
