"""Dispatcher: delivers the events of a run to its features, in any order, and does what they ask for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gymlab.core.clock import Clock
from gymlab.core.cooperative_lock import sleep
from gymlab.training.events import (
    Checkpointed,
    CheckpointKind,
    CheckpointRequested,
    Event,
    Feature,
    Paused,
    PauseRequested,
    Snapshot,
)

POLL_SECONDS = 0.05  # how often a paused run checks whether to continue

WriteCheckpoint = Callable[[tuple[CheckpointKind, ...]], Checkpointed]


class RequestStop(Protocol):
    def __call__(self, reason: str, *, unfinished: bool = False) -> None: ...


@dataclass(frozen=True, slots=True)
class FeatureControl:
    """The `Control` that features get. Nothing can be set on it, and the state of training is out of reach."""

    emit: Callable[[Event], None]
    request_stop: RequestStop
    snapshot: Callable[[], Snapshot]
    is_interrupted: Callable[[], bool]

    @property
    def interrupted(self) -> bool:
        return self.is_interrupted()


class Dispatcher:
    """Holds what features have asked for: events, checkpoints, a pause, a stop."""

    def __init__(
        self, features: Sequence[Feature], snapshot: Callable[[], Snapshot], write: WriteCheckpoint | None
    ) -> None:
        self._features = features
        self._write = write
        self._events: deque[Event] = deque()
        self._requested: set[CheckpointKind] = set()
        self._control = FeatureControl(self._events.append, self.request_stop, snapshot, lambda: self.interrupted)
        self.paused = False
        self.stop_reason: str | None = None
        self.interruption: str | None = None

    def deliver(self, event: Event) -> None:
        """Deliver an event and all that features emit in response; then write a checkpoint if one was requested."""
        self._events.append(event)
        while self._events:
            event = self._events.popleft()
            if isinstance(event, CheckpointRequested):
                self._requested.add(event.kind)
            elif isinstance(event, PauseRequested):
                self.paused = event.paused
            for feature in self._features:
                feature(event, self._control)
        if self._requested and self._write is not None:
            kinds = tuple(sorted(self._requested))
            self._requested.clear()
            self.deliver(self._write(kinds))

    def wait_while_paused(self, clock: Clock) -> float:
        """The seconds that the run was paused, without what features did meanwhile."""
        waited = 0.0
        while self.paused and self.stop_reason is None:
            self.deliver(Paused(clock, waited))
            began = time.perf_counter()
            sleep(POLL_SECONDS)
            waited += time.perf_counter() - began
        return waited

    def next_due(self, now: Clock) -> int | None:
        """The first update after which a feature must see the state."""
        return min((due for feature in self._features if (due := feature.due(now)) is not None), default=None)

    def states(self) -> dict[str, dict[str, Any]]:
        """The states of the features that have one, for a checkpoint."""
        return {feature.name: state for feature in self._features if (state := feature.state())}

    def request_stop(self, reason: str, *, unfinished: bool = False) -> None:
        """The first reason counts. `unfinished`: the run is interrupted, and can be resumed."""
        self.stop_reason = self.stop_reason or reason
        if unfinished:
            self.interruption = self.interruption or reason

    @property
    def interrupted(self) -> bool:
        return self.interruption is not None
