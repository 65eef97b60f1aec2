"""Evaluation between two updates: at a cadence, when asked for, and at the end; on a snapshot, on the real env."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gymlab.core.clock import Clock
from gymlab.core.period import Period
from gymlab.features.evaluation_metrics import Patience, episode_seed, measured
from gymlab.training.evaluation import Abandon, Abandoned, Evaluation
from gymlab.training.events import (
    Control,
    Evaluated,
    EvaluationKind,
    EvaluationRequested,
    Event,
    Feature,
    Measured,
    Started,
    Stopping,
    Updated,
)
from gymlab.training.state import Policy

Run = Callable[[Policy, EvaluationKind, int, Abandon], Evaluation]  # (policy, kind, seed, when to give up)


class Evaluate(Feature):
    """An evaluation that a signal cuts short is not recorded; the run owes it, and makes up for it when it goes on."""

    name = "evaluate"

    def __init__(
        self, run: Run, period: Period, *, seed: int, last_update: int, from_return: float | None = None
    ) -> None:
        self._run = run
        self._period = period
        self._seed = seed
        self._last_update = last_update
        self._patience = Patience(from_return)
        self._latest: Evaluated | None = None
        self._owed: EvaluationKind | None = None

    def state(self) -> dict[str, Any]:
        return {"owed": self._owed, **self._patience.state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._owed = state["owed"]
        self._patience.restore(state)

    def due(self, updates: int) -> int:
        return self._period.due(updates)

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            # The last update of the budget is followed at once by the final evaluation.
            due = self._period.fires(event.clock.updates) and event.clock.updates < self._last_update
            if due and self._patience.look(event.rows[-1].metrics):
                self._evaluate("periodic", event.clock, control)
        elif isinstance(event, EvaluationRequested):
            self._evaluate(event.kind, event.clock, control)
        elif isinstance(event, Started) and self._owed is not None:
            self._evaluate(self._owed, event.clock, control)
        elif isinstance(event, Stopping) and not event.interrupted:
            self._finish(event.clock, control)

    def _finish(self, clock: Clock, control: Control) -> None:
        latest = self._latest
        if latest is not None and latest.kind == "confirm" and latest.clock.updates == clock.updates:
            control.emit(Evaluated(clock, "final", latest.evaluation))
        else:
            self._evaluate("final", clock, control)

    def _evaluate(self, kind: EvaluationKind, clock: Clock, control: Control) -> None:
        began = time.perf_counter()
        snapshot = control.snapshot()
        self._owed = None
        try:
            seed = episode_seed(self._seed, kind, clock)
            evaluation = self._run(snapshot.policy, kind, seed, lambda: control.interrupted)
        except Abandoned:
            self._owed = kind if kind != "final" else None  # a run that goes on comes to its end once more
            return
        self._latest = Evaluated(clock, kind, evaluation)
        control.emit(self._latest)
        control.emit(Measured(clock, measured(evaluation, time.perf_counter() - began)))
