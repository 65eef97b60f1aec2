"""The whole life of a run: advance, deliver events to the features, write requested checkpoints. Read this first."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gymlab.core.clock import Clock
from gymlab.core.cooperative_lock import sleep
from gymlab.core.types import Array
from gymlab.metrics.run_totals import RunTotals
from gymlab.training.events import (
    Checkpointed,
    CheckpointKind,
    CheckpointRequested,
    Ended,
    Event,
    Feature,
    Paused,
    PauseRequested,
    Snapshot,
    Started,
    Stopping,
    Updated,
)
from gymlab.training.nonfinite import NumericalFault
from gymlab.training.run_plan import RunPlan
from gymlab.training.state import TrainState
from gymlab.training.trainer import Advanced, Trainer

POLL_SECONDS = 0.05  # how often a paused run checks whether to continue

# Commits the metrics, then saves the state, the clock and the features' states.
Barrier = Callable[[TrainState, Clock, dict[str, dict[str, Any]], tuple[CheckpointKind, ...]], Checkpointed]


class TrainOutcome(NamedTuple):
    state: TrainState
    clock: Clock
    reason: str
    status: str


class Loop:
    """One run in progress. Features see it only as `Control`."""

    def __init__(
        self, trainer: Trainer, plan: RunPlan, features: Sequence[Feature], barrier: Barrier | None = None
    ) -> None:
        self._trainer = trainer
        self._plan = plan
        self._features = features
        self._barrier = barrier
        self._events: deque[Event] = deque()
        self._requested: set[CheckpointKind] = set()
        self._stop_reason: str | None = None
        self._interruption: str | None = None
        self._paused = False
        self._seconds_per_update = 0.0  # in the last call; 0 before there is one
        self._totals = RunTotals()

    def restore(self, states: dict[str, dict[str, Any]]) -> None:
        """Continue the run's totals from the states of a checkpoint."""
        self._totals.restore(states)

    def run(self, state: TrainState, clock: Clock, *, resumed: bool = False) -> TrainOutcome:
        self._state = state
        self._clock = clock
        self._start_time = time.perf_counter() - clock.seconds
        self._deliver(Started(clock, resumed))
        while self._running:
            self._advance()
            self._wait_while_paused()
        self._stop_reason = self._stop_reason or "budget"
        self._deliver(Stopping(self._clock, self._interruption or self._stop_reason, self.interrupted))
        # A signal may have arrived meanwhile and cut the final evaluation short.
        reason = self._interruption or self._stop_reason
        status = "stopped" if self.interrupted else "finished"
        self._deliver(Ended(self._clock, reason, status))
        return TrainOutcome(self._trainer.materialize(self._state), self._clock, reason, status)

    def _advance(self) -> None:
        """Run some updates in one call of the trainer."""
        hp = self._plan.scheduled(self._clock, self._updates_per_call())
        call_start = time.perf_counter()
        try:
            advanced = self._trainer.advance(self._state, self._clock, hp, self._plan.stop_return)
        except NumericalFault as fault:
            self._accept(fault.good, hp, call_start)  # the updates before the discarded one count
            raise
        self._accept(advanced, hp, call_start)

    def _accept(self, advanced: Advanced, hp: Array, call_start: float) -> None:
        """Take over the state, and deliver the rows of the updates."""
        self._state, rows = advanced
        if not rows:
            return
        now = time.perf_counter()
        self._seconds_per_update = (self._trainer.last_call_seconds or now - call_start) / len(rows)
        stamped = self._plan.stamp(self._clock, rows, hp, now - self._start_time, self._totals)
        self._clock = stamped[-1].clock
        self._deliver(Updated(self._clock, stamped))

    def _deliver(self, event: Event) -> None:
        """Deliver an event and all that features emit in response; then write a checkpoint if one was requested."""
        self._events.append(event)
        while self._events:
            event = self._events.popleft()
            if isinstance(event, CheckpointRequested):
                self._requested.add(event.kind)
            elif isinstance(event, PauseRequested):
                self._paused = event.paused
            for feature in self._features:
                feature(event, self)
        if self._requested and self._barrier is not None:
            kinds: tuple[CheckpointKind, ...] = tuple(sorted(self._requested))
            states = {feature.name: state for feature in self._features if (state := feature.state())}
            if totals := self._totals.state():
                states[self._totals.name] = totals
            self._requested.clear()
            self._deliver(self._barrier(self._trainer.materialize(self._state), self._clock, states, kinds))

    def _updates_per_call(self) -> int:
        """Updates up to the next feature's due update or the end, within the time a call should take.

        How updates are cut into calls changes no result.
        """
        done = self._clock.updates
        due = [due for feature in self._features if (due := feature.due(done)) is not None]
        next_due = min([*due, self._plan.updates]) - done
        affordable = int(self._trainer.call_seconds / self._seconds_per_update) if self._seconds_per_update else 1
        return max(1, min(next_due, affordable, self._trainer.most))

    def _wait_while_paused(self) -> None:
        """The run's clock excludes the waiting, but not what features do meanwhile."""
        waited = 0.0
        while self._paused and self._running:
            self._deliver(Paused(self._clock, waited))
            sleep_start = time.perf_counter()
            sleep(POLL_SECONDS)
            waited += time.perf_counter() - sleep_start
            self._start_time += time.perf_counter() - sleep_start

    @property
    def _running(self) -> bool:
        return self._stop_reason is None and self._clock.updates < self._plan.updates

    # What features may do: `Control`.

    def emit(self, event: Event) -> None:
        self._events.append(event)

    def request_stop(self, reason: str, *, unfinished: bool = False) -> None:
        self._stop_reason = self._stop_reason or reason
        if unfinished:
            self._interruption = self._interruption or reason

    def interrupt(self, reason: str) -> None:
        """Stop after the current call, from a signal handler or another thread."""
        self.request_stop(reason, unfinished=True)

    @property
    def interrupted(self) -> bool:
        return self._interruption is not None

    def snapshot(self) -> Snapshot:
        return Snapshot(self._trainer.agent.policy(self._trainer.materialize(self._state)), self._clock)
