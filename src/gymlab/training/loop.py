"""The whole life of a run: advance, deliver events to the features, write requested checkpoints. Read this first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from gymlab.core.clock import Clock
from gymlab.core.types import Array
from gymlab.metrics.run_totals import RunTotals
from gymlab.training.dispatch import Dispatcher
from gymlab.training.events import (
    Checkpointed,
    CheckpointKind,
    Ended,
    Feature,
    FeatureState,
    Snapshot,
    Started,
    Stopping,
    Updated,
)
from gymlab.training.nonfinite import NumericalFault
from gymlab.training.run_plan import RunPlan
from gymlab.training.state import TrainState
from gymlab.training.trainer import Advanced, Trainer

# Commits the metrics, then saves the state, the clock and the features' states.
Barrier = Callable[[TrainState, Clock, dict[str, FeatureState], tuple[CheckpointKind, ...]], Checkpointed]


class TrainOutcome(NamedTuple):
    state: TrainState
    clock: Clock
    reason: str
    status: str


class Loop:
    """One run in progress."""

    def __init__(
        self,
        trainer: Trainer,
        plan: RunPlan,
        features: Sequence[Feature],
        barrier: Barrier | None = None,
        totals: RunTotals | None = None,
    ) -> None:
        self._trainer = trainer
        self._plan = plan
        self._barrier = barrier
        self._totals = totals or RunTotals()
        self._dispatcher = Dispatcher(features, self._snapshot, self._checkpoint if barrier else None)
        self._seconds_per_update = 0.0  # in the last call; 0 before there is one

    def run(self, state: TrainState, clock: Clock, *, resumed: bool = False) -> TrainOutcome:
        self._state = state
        self._clock = clock
        self._start_time = time.perf_counter() - clock.seconds
        events = self._dispatcher
        events.deliver(Started(clock, resumed))
        while self._running:
            self._advance()
            if self._running:
                self._start_time += events.wait_while_paused(self._clock)  # the run's clock excludes it
        events.request_stop("budget")  # where nothing else ended the run
        events.deliver(Stopping(self._clock, self._reason, events.interrupted))
        # A signal may have arrived meanwhile and cut the final evaluation short.
        reason = self._reason
        status: Literal["finished", "stopped"] = "stopped" if events.interrupted else "finished"
        events.deliver(Ended(self._clock, reason, status))
        return TrainOutcome(self._trainer.materialize(self._state), self._clock, reason, status)

    def interrupt(self, reason: str) -> None:
        """Stop after the current call, from a signal handler or another thread."""
        self._dispatcher.request_stop(reason, unfinished=True)

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
        self._dispatcher.deliver(Updated(self._clock, stamped))

    def _updates_per_call(self) -> int:
        """Updates up to the next feature's due update or the end, within the time a call should take.

        How updates are cut into calls changes no result.
        """
        left = self._plan.left(self._clock)
        due = self._dispatcher.next_due(self._clock)
        if due is not None:
            left = min(left, due - self._clock.updates)
        affordable = int(self._trainer.call_seconds / self._seconds_per_update) if self._seconds_per_update else 1
        return max(1, min(left, affordable, self._trainer.most))

    @property
    def _running(self) -> bool:
        return self._dispatcher.stop_reason is None and self._plan.left(self._clock) > 0

    @property
    def _reason(self) -> str:
        return self._dispatcher.interruption or self._dispatcher.stop_reason or ""

    def _snapshot(self) -> Snapshot:
        """The policy in containers of its own: what a feature does to them, nobody else sees."""
        policy = self._trainer.agent.policy(self._trainer.materialize(self._state))
        return Snapshot(policy.separate(), self._clock)

    def _checkpoint(self, kinds: tuple[CheckpointKind, ...]) -> Checkpointed:
        assert self._barrier is not None
        state = self._trainer.materialize(self._state)
        return self._barrier(state, self._clock, self._dispatcher.states(), kinds)
