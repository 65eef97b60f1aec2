"""RemoteControl: reads requests from the run's folder: stop, pause, step one update, go on, evaluate, checkpoint.

A file can be written where no signal can be sent: by the web page, by other hosts, on Windows. Pausing and stepping do
not change what is learnt.
"""

from __future__ import annotations

import time

from gymlab.core.clock import Clock
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


class RemoteControl(Feature):
    name = "remote_control"

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._owner = Owner.me()
        self._stop_polled_at = 0.0
        self._polled_at = 0.0
        self._stepping = False

    def due(self, now: Clock) -> int | None:
        return now.updates + 1 if self._stepping else None

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started | Updated | Paused):
            self._poll_stop(control)
        if isinstance(event, Started | Ended):
            requests.clear_requests(self._paths)
        if isinstance(event, Ended):
            requests.clear_stop_request(self._paths)
        elif isinstance(event, PauseRequested):
            requests.write_pause_state(self._paths, paused=event.paused, updates=event.clock.updates)
        elif isinstance(event, Updated | Paused):
            if isinstance(event, Updated) and self._stepping:
                self._stepping = False
                control.emit(PauseRequested(event.clock, True))
            self._poll_requests(event, control)

    def _poll_stop(self, control: Control) -> None:
        if time.monotonic() - self._stop_polled_at > STOP_POLL_SECONDS:
            self._stop_polled_at = time.monotonic()
            if requests.stop_requested(self._paths, self._owner):
                control.request_stop("stopped by request", unfinished=True)

    def _poll_requests(self, event: Event, control: Control) -> None:
        if time.monotonic() - self._polled_at < POLL_SECONDS:
            return
        self._polled_at = time.monotonic()
        for request in requests.take_requests(self._paths, self._owner):
            if request == "evaluate":
                control.emit(EvaluationRequested(event.clock, "periodic"))
            elif request == "checkpoint":
                control.emit(CheckpointRequested(event.clock, "periodic"))
            else:
                self._stepping = request == "step"
                control.emit(PauseRequested(event.clock, request == "pause"))
