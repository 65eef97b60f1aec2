"""The feature that forwards a run's events to its trackers: start, best checkpoint, clips, end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from gymlab.core.clock import Clock
from gymlab.trackers.follow import Follower
from gymlab.training.events import (
    Checkpointed,
    Control,
    Ended,
    Event,
    Feature,
    Measured,
    Started,
    Stopping,
    Updated,
)

FINISH_SECONDS = 20.0
HURRY_SECONDS = 3.0  # after a signal or an error: less than the grace a run has to end in


class Tracker(Feature):
    """Rows reach the trackers through the store only. To be closed after the store's writer."""

    name = "tracker"

    def __init__(self, followers: Sequence[Follower], on_start: Callable[[], None] = lambda: None) -> None:
        self._followers = followers
        self._on_start = on_start
        self._latest = 0
        self._hurry = False
        self._down = 0

    def describe(self) -> list[str]:
        """The destinations of the copies, for the first line of the run."""
        return [follower.sink.describe() for follower in self._followers]

    def media(self, path: Path, clock: Clock) -> None:
        """A clip of the policy as it was at `clock`."""
        for follower in self._followers:
            follower.media(path, clock)

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Stopping | Ended):
            self._hurry = self._hurry or control.interrupted
        if isinstance(event, Started):
            self._latest = event.clock.updates + 1
            self._on_start()
        elif isinstance(event, Updated):
            self._latest = event.clock.updates
            self._report_outages(event.clock, control)
        for follower in self._followers:
            if isinstance(event, Started):
                follower.begin(event.clock)
            elif isinstance(event, Updated):
                follower.resume()
            elif isinstance(event, Measured) and 0 < event.clock.updates < self._latest:
                follower.amend(event.clock.updates, event.metrics)
            elif isinstance(event, Checkpointed) and "best" in event.kinds:
                follower.artifact(event.path, ("best",))
            elif isinstance(event, Ended):
                follower.pause()

    def _report_outages(self, clock: Clock, control: Control) -> None:
        down = sum(follower.down for follower in self._followers)
        if down != self._down:
            self._down = down
            control.emit(Measured(clock, {"sys/trackers_down": float(down)}))

    def copy(self, at: Clock, best: Path | None, seconds: float) -> None:
        """Send an ended run, or the part that is missing."""
        self._on_start()
        for follower in self._followers:
            follower.begin(at)
            follower.resume()
            if best is not None:
                follower.artifact(best, ("best",))
        self.close(seconds)

    def close(self, seconds: float, *, failed: bool = False) -> None:
        """Let the copies catch up and close; all of them together take this long at most."""
        for follower in self._followers:
            follower.end(seconds, failed=failed)
        for follower in self._followers:
            follower.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(HURRY_SECONDS if self._hurry or error is not None else FINISH_SECONDS, failed=error is not None)
