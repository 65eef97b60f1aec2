"""EvaluateAsync: evaluation in another process during training, requested at one boundary, in effect at the next.

Checkpoints are evaluated, so a result belongs to a step that can be restored, and a job that a killed run was waiting
for is submitted again on resume. When a result takes effect does not depend on how fast it came: training waits for a
late one. So at most one job is in progress, none is dropped, and runs are as reproducible as with `EvaluateSync`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from gymlab.core.clock import Clock, ClockRecord
from gymlab.core.period import Period
from gymlab.features.evaluation_metrics import EvaluationWarmup, episode_seed, evaluation_metrics
from gymlab.training.evaluation import Evaluation
from gymlab.training.events import (
    Checkpointed,
    CheckpointRequested,
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


@dataclass(frozen=True)
class EvaluationGoal:
    """The score from which an evaluation is confirmed at once by a fresh, larger one of the same policy."""

    eval_return: float | None
    solved_by: str

    def reached(self, evaluation: Evaluation | None) -> bool:
        return (
            self.eval_return is not None
            and evaluation is not None
            and evaluation.judged_by(self.solved_by) >= self.eval_return
        )


class EvaluationJob(NamedTuple):
    """A request to evaluate one checkpoint's policy."""

    checkpoint: Path  # a checkpoint folder, or a file that holds only a policy
    kind: EvaluationKind
    seed: int
    confirming_seed: int


class EvaluationResult(NamedTuple):
    evaluation: Evaluation
    confirming: Evaluation | None  # if the first reached the goal
    seconds: float


class BackgroundEvaluator(Protocol):
    """Does one job at a time in another process."""

    def submit(self, job: EvaluationJob) -> None: ...
    def wait(self, abandon: Callable[[], bool]) -> EvaluationResult | None:
        """The job's result; None if abandoned, and the job continues."""
        ...


class EvaluateAsync(Feature):
    """Its state holds the job it waits for, so that a resumed run continues as if never interrupted."""

    name = "evaluate_async"

    def __init__(
        self,
        evaluator: BackgroundEvaluator,
        period: Period,
        goal: EvaluationGoal,
        *,
        seed: int,
        last_update: int,
        checkpoint_at: Callable[[Clock], Path],
        from_return: float | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._period = period
        self._goal = goal
        self._seed = seed
        self._last_update = last_update
        self._checkpoint_at = checkpoint_at
        self._warmup = EvaluationWarmup(from_return)
        self._pending: Clock | None = None  # of the policy being evaluated
        self._submitted = False
        self._missed_boundary = False  # a signal ended the wait for the previous result
        self._confirmed: tuple[Clock, Evaluation] | None = None
        self._ending = False

    def due(self, now: Clock) -> int:
        return self._period.due(now)

    def state(self) -> FeatureState:
        confirmed = self._confirmed if self._solved else None
        return {
            "pending": None if self._pending is None else _clock_state(self._pending),
            "missed_boundary": self._missed_boundary,
            "confirmed": None if confirmed is None else [_clock_state(confirmed[0]), confirmed[1].to_json()],
            **self._warmup.state(),
        }

    def restore(self, state: FeatureState) -> None:
        self._pending = None if state["pending"] is None else Clock(**state["pending"])
        self._missed_boundary = state["missed_boundary"]
        if state["confirmed"] is not None:
            clock, evaluation = state["confirmed"]
            self._confirmed = Clock(**clock), Evaluation.from_json(evaluation)
        self._warmup.restore(state)

    @property
    def _solved(self) -> bool:
        return self._confirmed is not None and self._goal.reached(self._confirmed[1])

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            due = self._period.fires(event.clock) and event.clock.updates < self._last_update
            if due and self._warmup.is_over(event.rows[-1].metrics):
                self._boundary(event.clock, control)
        elif isinstance(event, Checkpointed):
            self._checkpointed(event, control)
        elif isinstance(event, EvaluationRequested):
            self._requested(event, control)
        elif isinstance(event, Started) and self._pending is not None:
            self._submit(self._checkpoint_at(self._pending), "periodic", self._pending)
            if self._missed_boundary:
                self._boundary(event.clock, control)
        elif isinstance(event, Stopping) and not event.interrupted:
            self._stopping(event.clock, control)

    def _boundary(self, clock: Clock, control: Control) -> None:
        if self._pending is not None and not self._collect(clock, control):
            self._missed_boundary = True
            return
        self._request(clock, control)

    def _request(self, clock: Clock, control: Control) -> None:
        self._pending = clock
        self._submitted = False
        self._missed_boundary = False
        control.emit(CheckpointRequested(clock, "asked"))

    def _checkpointed(self, event: Checkpointed, control: Control) -> None:
        if self._ending and "last" in event.kinds:
            self._ending = False
            self._submit(event.path, "final", event.clock)
            result = self._evaluator.wait(lambda: control.interrupted)
            if result is not None:
                self._emit(event.clock, "final", result.evaluation, result.seconds, control)
        elif self._pending is not None and not self._submitted and event.clock.updates == self._pending.updates:
            self._submit(event.path, "periodic", self._pending)

    def _submit(self, path: Path, kind: EvaluationKind, clock: Clock) -> None:
        self._submitted = True
        seeds = (episode_seed(self._seed, kind, clock), episode_seed(self._seed, "confirm", clock))
        self._evaluator.submit(EvaluationJob(path, kind, *seeds))

    def _collect(self, now: Clock, control: Control) -> bool:
        """Wait for the pending result and emit it; False if a signal ended the wait."""
        assert self._pending is not None
        began = time.perf_counter()
        result = self._evaluator.wait(lambda: control.interrupted)
        if result is None:
            return False
        control.emit(Measured(now, {"time/evaluate_wait": time.perf_counter() - began}))
        clock = self._pending
        self._pending = None
        self._confirmed = None if result.confirming is None else (clock, result.confirming)
        self._emit(clock, "periodic", result.evaluation, result.seconds, control)
        return True

    def _requested(self, event: EvaluationRequested, control: Control) -> None:
        if self._confirmed is not None and event.clock.updates == self._confirmed[0].updates:
            clock, evaluation = self._confirmed
            self._emit(clock, "confirm", evaluation, None, control)  # its time is part of the first one's
        elif self._pending is None:  # on request: the result comes at the next boundary
            self._request(event.clock, control)

    def _stopping(self, clock: Clock, control: Control) -> None:
        """The final result: the confirmed evaluation that stopped the run, or one of the last policy."""
        if self._confirmed is not None and self._solved:
            control.emit(Evaluated(self._confirmed[0], "final", self._confirmed[1]))
            self._pending = None
        elif self._pending is None or self._collect(clock, control):
            self._ending = True  # evaluate the last checkpoint, which is about to be written

    def _emit(
        self, clock: Clock, kind: EvaluationKind, evaluation: Evaluation, seconds: float | None, control: Control
    ) -> None:
        control.emit(Evaluated(clock, kind, evaluation))
        control.emit(Measured(clock, evaluation_metrics(evaluation, seconds)))


def _clock_state(clock: Clock) -> ClockRecord:
    """A clock without seconds, which differ between runs."""
    return clock._replace(seconds=0.0).as_json()
