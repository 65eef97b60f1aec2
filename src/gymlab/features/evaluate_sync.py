"""EvaluateSync: evaluation between two updates: periodic, on request and at the end, on a snapshot of the policy."""

from __future__ import annotations

import time
from collections.abc import Callable

from gymlab.core.clock import Clock
from gymlab.core.period import Period
from gymlab.features.evaluation_metrics import EvaluationWarmup, episode_seed, evaluation_metrics
from gymlab.training.evaluation import Abandon, Abandoned, Evaluation
from gymlab.training.events import (
    Control,
    Evaluated,
    EvaluationKind,
    EvaluationRequested,
    Event,
    Feature,
    FeatureState,
    Measured,
    Started,
    Stopping,
    Updated,
)
from gymlab.training.state import Policy

RunEvaluation = Callable[[Policy, EvaluationKind, int, Abandon], Evaluation]  # (policy, kind, seed, when to give up)


class EvaluateSync(Feature):
    """An evaluation interrupted by a signal is not recorded; it is re-run on resume."""

    name = "evaluate"

    def __init__(
        self, run: RunEvaluation, period: Period, *, seed: int, last_update: int, from_return: float | None = None
    ) -> None:
        self._run = run
        self._period = period
        self._seed = seed
        self._last_update = last_update
        self._warmup = EvaluationWarmup(from_return)
        self._latest: Evaluated | None = None
        self._to_rerun: EvaluationKind | None = None

    def state(self) -> FeatureState:
        return {"rerun": self._to_rerun, **self._warmup.state()}

    def restore(self, state: FeatureState) -> None:
        self._to_rerun = state["rerun"]
        self._warmup.restore(state)

    def due(self, now: Clock) -> int:
        return self._period.due(now)

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            # The final evaluation follows the last update of the budget at once.
            due = self._period.fires(event.clock) and event.clock.updates < self._last_update
            if due and self._warmup.is_over(event.rows[-1].metrics):
                self._evaluate("periodic", event.clock, control)
        elif isinstance(event, EvaluationRequested):
            self._evaluate(event.kind, event.clock, control)
        elif isinstance(event, Started) and self._to_rerun is not None:
            self._evaluate(self._to_rerun, event.clock, control)
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
        self._to_rerun = None
        try:
            seed = episode_seed(self._seed, kind, clock)
            evaluation = self._run(snapshot.policy, kind, seed, lambda: control.interrupted)
        except Abandoned:
            self._to_rerun = kind if kind != "final" else None  # a resumed run has its own final evaluation
            return
        self._latest = Evaluated(clock, kind, evaluation)
        control.emit(self._latest)
        control.emit(Measured(clock, evaluation_metrics(evaluation, time.perf_counter() - began)))
