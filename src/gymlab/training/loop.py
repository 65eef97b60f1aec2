"""The whole life of a run: advance, tell the features, and write a checkpoint when one is wanted. Read this first."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.cooperative_lock import yield_lock
from gymlab.core.types import Array
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
    UpdateRow,
)
from gymlab.training.nonfinite import NumericalFault
from gymlab.training.state import TrainState
from gymlab.training.trainer import Advanced, Trainer, UpdateMetrics

WAIT_SECONDS = 0.05  # between two looks at whether a pause is over

# Commits the metrics, then saves the state, the clock and the features' states.
Barrier = Callable[[TrainState, Clock, dict[str, dict[str, Any]], tuple[CheckpointKind, ...]], Checkpointed]


@dataclass(frozen=True)
class RunPlan:
    """The numbers of a run."""

    steps_per_update: int  # vec_steps
    n_envs: int
    updates: int  # in the budget
    stop_return: float  # training return at which compiled calls end early; inf for never
    hp_names: list[str]
    hyperparameters: Callable[[int], Array]  # update number (from 0) -> scheduled values, in the order of hp_names

    def after(self, clock: Clock, updates: int, episodes: float) -> Clock:
        """The clocks some updates later; seconds are the loop's."""
        vec_steps = clock.vec_steps + updates * self.steps_per_update
        finished = clock.episodes + int(episodes)
        return Clock(clock.updates + updates, vec_steps, vec_steps * self.n_envs, finished, clock.seconds)


class TrainOutcome(NamedTuple):
    state: TrainState
    clock: Clock
    reason: str
    status: str


class Loop:
    """One run in progress. Features see it only as `Control`."""

    def __init__(
        self, program: Trainer, plan: RunPlan, features: Sequence[Feature], barrier: Barrier | None = None
    ) -> None:
        self._program = program
        self._plan = plan
        self._features = features
        self._barrier = barrier
        self._queue: deque[Event] = deque()
        self._wanted: set[CheckpointKind] = set()
        self._reason: str | None = None
        self._paused = False
        self._interruption: str | None = None
        self._kl_stops = 0

    def restore(self, state: dict[str, Any]) -> None:
        """Go on counting where a checkpoint stopped."""
        self._kl_stops = int(state.get("kl_stops", 0))

    def run(self, state: TrainState, clock: Clock, *, resumed: bool = False) -> TrainOutcome:
        self._state = state
        self._clock = clock
        self._began = time.perf_counter() - clock.seconds
        self._deliver(Started(clock, resumed))
        while self._goes_on:
            self._advance()
            self._wait()
        self._reason = self._reason or "budget"
        self._deliver(Stopping(self._clock, self._interruption or self._reason, self.interrupted))
        # A signal may have come since, and cut the final evaluation short.
        reason = self._interruption or self._reason
        status = "stopped" if self.interrupted else "finished"
        self._deliver(Ended(self._clock, reason, status))
        return TrainOutcome(self._program.opened(self._state), self._clock, reason, status)

    def emit(self, event: Event) -> None:
        self._queue.append(event)

    def request_stop(self, reason: str, *, unfinished: bool = False) -> None:
        self._reason = self._reason or reason
        if unfinished:
            self._interruption = self._interruption or reason

    def interrupt(self, reason: str) -> None:
        """Stop after the current call, from a signal handler or another thread."""
        self.request_stop(reason, unfinished=True)

    @property
    def _goes_on(self) -> bool:
        return self._reason is None and self._clock.updates < self._plan.updates

    @property
    def interrupted(self) -> bool:
        return self._interruption is not None

    def snapshot(self) -> Snapshot:
        return Snapshot(self._program.agent.policy(self._program.opened(self._state)), self._clock)

    def _advance(self) -> None:
        first = self._clock.updates
        count = self._updates_now()
        hp = np.stack([self._plan.hyperparameters(first + i) for i in range(count)])
        began = time.perf_counter()
        try:
            self._accept(self._program.advance(self._state, first, hp, self._plan.stop_return), hp, began)
        except NumericalFault as fault:
            self._accept(fault.good, hp, began)  # the bad update is gone, those before it are sound
            raise

    def _wait(self) -> None:
        """While paused. The clock stands still but for what features do meanwhile: waiting is no training."""
        waited = 0.0
        while self._paused and self._goes_on:
            self._deliver(Paused(self._clock, waited))
            began = time.perf_counter()
            with yield_lock():
                time.sleep(WAIT_SECONDS)
            waited += time.perf_counter() - began
            self._began += time.perf_counter() - began

    def _accept(self, advanced: Advanced, hp: Array, began: float) -> None:
        self._state, rows = advanced
        if not rows:
            return
        now = time.perf_counter()
        self._pace = (self._program.called or now - began) / len(rows)
        for row, values in zip(rows, hp, strict=False):
            row |= {f"hp/{name}": float(value) for name, value in zip(self._plan.hp_names, values, strict=True)}
        stamped = self._stamp(rows, now - self._began)
        self._clock = stamped[-1].clock
        self._deliver(Updated(self._clock, stamped))

    _pace = 0.0  # seconds per update of the last call; 0 before there is one

    def _updates_now(self) -> int:
        """Up to what is due next, the end, or about as long as a call should take: which of them changes no result."""
        done = self._clock.updates
        due = [due for feature in self._features if (due := feature.due(done)) is not None]
        next_due = min([*due, self._plan.updates]) - done
        affordable = int(self._program.call_seconds / self._pace) if self._pace else 1
        return max(1, min(next_due, affordable, self._program.most))

    def _stamp(self, rows: list[UpdateMetrics], seconds: float) -> tuple[UpdateRow, ...]:
        clock = self._clock
        stamped = []
        share = (seconds - clock.seconds) / len(rows)
        for row in rows:
            later = self._plan.after(clock, 1, row["roll/episodes"])
            clock = later._replace(seconds=clock.seconds + share)
            row["time/progress"] = min(1.0, clock.updates / self._plan.updates)
            if "opt/kl_stop" in row:
                self._kl_stops += int(row["opt/kl_stop"])
                row["opt/kl_stop_count"] = float(self._kl_stops)
                row["opt/kl_stop_fraction"] = self._kl_stops / clock.updates
            stamped.append(UpdateRow(clock, row, row.histograms))
        return tuple(stamped)

    def _deliver(self, event: Event) -> None:
        """Tell everyone, then whatever they said, until nothing is left; then save if anyone wanted that."""
        self._queue.append(event)
        while self._queue:
            event = self._queue.popleft()
            if isinstance(event, CheckpointRequested):
                self._wanted.add(event.kind)
            elif isinstance(event, PauseRequested):
                self._paused = event.paused
            for feature in self._features:
                feature(event, self)
        if self._wanted and self._barrier is not None:
            kinds: tuple[CheckpointKind, ...] = tuple(sorted(self._wanted))
            states = {feature.name: feature.state() for feature in self._features if feature.state()}
            if self._kl_stops:
                states["loop"] = {"kl_stops": self._kl_stops}
            self._wanted.clear()
            self._deliver(self._barrier(self._program.opened(self._state), self._clock, states, kinds))
