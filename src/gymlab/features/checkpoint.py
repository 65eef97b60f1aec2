"""Checkpoint: requests checkpoints: at the start, at a cadence, at the best evaluation so far and at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from gymlab.core.clock import Clock
from gymlab.core.period import Period
from gymlab.training.events import (
    Checkpointed,
    CheckpointRequested,
    Control,
    Evaluated,
    Event,
    Feature,
    FeatureState,
    Measured,
    Promoted,
    Started,
    Stopping,
    Updated,
)


class Checkpoint(Feature):
    """Of two policies with equal scores the later one is the best.

    A confirming or final evaluation of the best policy replaces the value that made it the best, also where it is
    lower: the next policy that beats it takes its place.
    """

    name = "checkpoint"

    def __init__(
        self,
        period: Period,
        solved_by: str,
        promote: Callable[[Clock], Path],
        add_metrics: Callable[[Clock, Mapping[str, float]], None],
    ) -> None:
        """`promote` makes the checkpoint written at a clock the best one, `add_metrics` adds to its metrics."""
        self._period = period
        self._solved_by = solved_by
        self._promote = promote
        self._add_metrics = add_metrics
        self._best = -math.inf
        self._best_update = -1  # after which the best policy was taken
        self._updates = 0
        self._saved = 0  # updates at the newest checkpoint

    def due(self, now: Clock) -> int:
        return self._period.due(now)

    def state(self) -> FeatureState:
        return {"best": None if math.isinf(self._best) else self._best, "best_update": self._best_update}

    def restore(self, state: FeatureState) -> None:
        self._best = -math.inf if state["best"] is None else state["best"]
        self._best_update = state["best_update"]

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started | Updated):
            self._updates = event.clock.updates
        if (isinstance(event, Started) and not event.resumed) or (
            isinstance(event, Updated) and self._period.fires(event.clock)
        ):
            control.emit(CheckpointRequested(event.clock, "periodic"))
        elif isinstance(event, Evaluated):
            self._compare(event, control)
        elif isinstance(event, Checkpointed):
            self._saved = event.clock.updates
        elif isinstance(event, Measured) and self._came_late(event.clock):
            self._add_metrics(event.clock, event.metrics)
        elif isinstance(event, Stopping):
            control.emit(CheckpointRequested(event.clock, "last"))

    def _came_late(self, clock: Clock) -> bool:
        """Whether a checkpoint of this clock, if there is one, is already written."""
        return 0 < clock.updates < self._updates or 0 < clock.updates == self._saved

    def _compare(self, event: Evaluated, control: Control) -> None:
        score = event.evaluation.judged_by(self._solved_by)
        judged_again = event.clock.updates == self._best_update and event.kind != "periodic"
        if score < self._best and not judged_again:
            return
        self._best = score
        self._best_update = event.clock.updates
        if event.clock.updates == self._updates:
            control.emit(CheckpointRequested(event.clock, "best"))
        else:  # asynchronous: the evaluated policy is in an earlier checkpoint
            control.emit(Promoted(event.clock, self._promote(event.clock)))
