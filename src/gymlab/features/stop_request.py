"""Stops a run when a file in its folder asks for it: the way for owners that no signal reaches."""

from __future__ import annotations

import time

from gymlab.runs.control import clear_stop_request, stop_requested
from gymlab.runs.locks import Owner
from gymlab.runs.paths import RunPaths
from gymlab.training.events import Control, Ended, Event, Feature, Paused, Started, Updated

LOOK_SECONDS = 1.0


class StopRequest(Feature):
    name = "stop_request"

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._me = Owner.me()
        self._looked = 0.0

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started | Updated | Paused) and time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            if stop_requested(self._paths, self._me):
                control.request_stop("stopped by request", unfinished=True)
        elif isinstance(event, Ended):
            clear_stop_request(self._paths)
