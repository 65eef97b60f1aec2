"""Requests from outside, as files in the run's folder: stop, pause, one update, resume, evaluate, checkpoint.

None of them changes what is learnt: a run that was paused and stepped has the same numbers as one that was not.
"""

from __future__ import annotations

import time

from gymlab.runs import requests
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

STOP_POLL_SECONDS = 1.0
POLL_SECONDS = 0.2


class StopRequest(Feature):
    """Stops the run when a file asks for it: the way for owners that no signal reaches."""

    name = "stop_request"

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._owner = Owner.me()
        self._polled = 0.0

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started | Updated | Paused) and time.monotonic() - self._polled > STOP_POLL_SECONDS:
            self._polled = time.monotonic()
            if requests.stop_requested(self._paths, self._owner):
                control.request_stop("stopped by request", unfinished=True)
        elif isinstance(event, Ended):
            requests.clear_stop_request(self._paths)


class Steering(Feature):
    """Carries out the requests to pause, step, resume, evaluate and write a checkpoint."""

    name = "steering"

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._owner = Owner.me()
        self._polled = 0.0
        self._stepping = False

    def due(self, updates: int) -> int | None:
        return updates + 1 if self._stepping else None

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started | Ended):
            requests.clear_requests(self._paths)
        elif isinstance(event, PauseRequested):
            requests.write_pause_state(self._paths, paused=event.paused, updates=event.clock.updates)
        elif isinstance(event, Updated | Paused):
            if isinstance(event, Updated) and self._stepping:
                self._stepping = False
                control.emit(PauseRequested(event.clock, True))
            if time.monotonic() - self._polled >= POLL_SECONDS:
                self._polled = time.monotonic()
                for request in requests.take_requests(self._paths, self._owner):
                    self._carry_out(request, event, control)

    def _carry_out(self, request: requests.Request, event: Event, control: Control) -> None:
        if request == "evaluate":
            control.emit(EvaluationRequested(event.clock, "periodic"))
        elif request == "checkpoint":
            control.emit(CheckpointRequested(event.clock, "periodic"))
        else:
            self._stepping = request == "step"
            control.emit(PauseRequested(event.clock, request == "pause"))
