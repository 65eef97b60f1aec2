"""Stop: ends a run that has reached its return or time limit, or makes no more progress (`stop:` of a recipe)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gymlab.training.episodes import WINDOW
from gymlab.training.events import (
    Control,
    Evaluated,
    EvaluationRequested,
    Event,
    Feature,
    FeatureState,
    Started,
    Updated,
)


@dataclass(frozen=True)
class StopLimits:
    """When to stop; None and infinity mean never."""

    eval_return: float | None = None
    train_return: float | None = None
    solved_by: str = "greedy"
    confirm: bool = True  # a periodic evaluation at eval_return requests a fresh, larger one; only that one counts
    plateau: float = math.inf  # periodic evaluations without a better one
    plateau_delta: float = 0.0
    seconds: float = math.inf


class Stop(Feature):
    """Requests a stop; the first reason becomes the run's."""

    name = "stop"

    def __init__(self, limits: StopLimits) -> None:
        self._limits = limits
        self._reached: str | None = None  # until the final evaluation: a run resumed before it stops at once
        self._best = -math.inf
        self._stale = 0

    def state(self) -> FeatureState:
        best = None if math.isinf(self._best) else self._best
        return {"reached": self._reached, "thresholds": self._thresholds, "best": best, "stale": self._stale}

    def restore(self, state: FeatureState) -> None:
        self._reached = state["reached"] if state["thresholds"] == self._thresholds else None
        self._best = -math.inf if state["best"] is None else state["best"]
        self._stale = state["stale"]

    @property
    def _thresholds(self) -> list[float | None]:
        return [self._limits.eval_return, self._limits.train_return]

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started) and self._reached is not None:
            control.request_stop(self._reached)
        elif isinstance(event, Updated):
            self._check_update(event, control)
        elif isinstance(event, Evaluated) and event.kind == "final":
            self._reached = None
        elif isinstance(event, Evaluated):
            self._check_evaluation(event, control)

    def _check_update(self, event: Updated, control: Control) -> None:
        last = event.rows[-1].metrics
        target = self._limits.train_return
        if target is not None and last["roll/return_window"] >= WINDOW and last["roll/return_mean"] >= target:
            self._stop(f"train_return {last['roll/return_mean']:g} >= {target:g}", control)
        elif event.clock.seconds >= self._limits.seconds:
            self._stop(f"seconds {event.clock.seconds:.1f} >= {self._limits.seconds:g}", control)

    def _check_evaluation(self, event: Evaluated, control: Control) -> None:
        score = event.evaluation.judged_by(self._limits.solved_by)
        target = self._limits.eval_return
        if target is not None and score >= target:
            if event.kind == "periodic" and self._limits.confirm:
                control.emit(EvaluationRequested(event.clock, "confirm"))
            else:
                self._stop(f"solved: eval_return {score:g} >= {target:g}", control)
                return
        if event.kind == "periodic":
            self._check_plateau(score, control)

    def _check_plateau(self, score: float, control: Control) -> None:
        better = score > self._best + self._limits.plateau_delta or math.isinf(self._best)
        self._stale = 0 if better else self._stale + 1
        self._best = score if better else self._best
        if self._stale >= self._limits.plateau:
            self._stop(f"plateau: {self._stale} evaluations without a better one than {self._best:g}", control)

    def _stop(self, reason: str, control: Control) -> None:
        self._reached = reason
        control.request_stop(reason)
