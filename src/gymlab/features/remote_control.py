"""Does what files in the run's folder ask for: pause, one update, go on, evaluate, checkpoint.

Nothing of it changes what is learnt: a run that was paused and stepped has the same numbers as one that was not.
"""

from __future__ import annotations

import time

from gymlab.runs import steering
from gymlab.runs.locks import Owner
from gymlab.runs.paths import RunPaths
from gymlab.training.events import (
    CheckpointRequested,
    Control,
    Ended,
    EvaluationRequested,
    Event,
    Feature,
    Paused,
    PauseRequested,
    Started,
    Updated,
)

LOOK_SECONDS = 0.2


class Steering(Feature):
    name = "steering"

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._me = Owner.me()
        self._looked = 0.0
        self._stepping = False

    def due(self, updates: int) -> int | None:
        return updates + 1 if self._stepping else None

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started | Ended):
            steering.clear(self._paths)
        elif isinstance(event, PauseRequested):
            steering.tell(self._paths, paused=event.paused, updates=event.clock.updates)
        elif isinstance(event, Updated | Paused):
            if isinstance(event, Updated) and self._stepping:
                self._stepping = False
                control.emit(PauseRequested(event.clock, True))
            if time.monotonic() - self._looked >= LOOK_SECONDS:
                self._looked = time.monotonic()
                for wish in steering.take(self._paths, self._me):
                    self._grant(wish, event, control)

    def _grant(self, wish: steering.Wish, event: Event, control: Control) -> None:
        if wish == "evaluate":
            control.emit(EvaluationRequested(event.clock, "periodic"))
        elif wish == "checkpoint":
            control.emit(CheckpointRequested(event.clock, "periodic"))
        else:
            self._stepping = wish == "step"
            control.emit(PauseRequested(event.clock, wish == "pause"))
