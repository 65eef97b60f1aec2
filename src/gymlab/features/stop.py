"""Ends a run that has reached what it was for, or that gets no further."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gymlab.training.episodes import WINDOW
from gymlab.training.events import Control, Evaluated, EvaluationRequested, Event, Feature, Started, Updated


@dataclass(frozen=True)
class Limits:
    """When to stop; None and infinity are never."""

    eval_return: float | None = None
    train_return: float | None = None
    solved_by: str = "greedy"
    confirm: bool = True  # a periodic evaluation at eval_return asks for a fresh, larger one; only that one counts
    plateau: float = math.inf  # periodic evaluations without a better one
    plateau_delta: float = 0.0
    seconds: float = math.inf


class Stop(Feature):
    """Asks for a stop; the first reason given is the run's."""

    name = "stop"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._reached: str | None = None  # until the final evaluation is done: a run cut short there ends there
        self._best = -math.inf
        self._stale = 0

    def state(self) -> dict[str, Any]:
        best = None if math.isinf(self._best) else self._best
        return {"reached": self._reached, "thresholds": self._thresholds, "best": best, "stale": self._stale}

    def restore(self, state: dict[str, Any]) -> None:
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
            self._look(event, control)
        elif isinstance(event, Evaluated) and event.kind == "final":
            self._reached = None
        elif isinstance(event, Evaluated):
            self._judge(event, control)

    def _look(self, event: Updated, control: Control) -> None:
        last = event.rows[-1].metrics
        wanted = self._limits.train_return
        if wanted is not None and last["roll/return_window"] >= WINDOW and last["roll/return_mean"] >= wanted:
            self._stop(f"train_return {last['roll/return_mean']:g} >= {wanted:g}", control)
        elif event.clock.seconds >= self._limits.seconds:
            self._stop(f"seconds {event.clock.seconds:.1f} >= {self._limits.seconds:g}", control)

    def _judge(self, event: Evaluated, control: Control) -> None:
        score = event.evaluation.judged_by(self._limits.solved_by)
        wanted = self._limits.eval_return
        if wanted is not None and score >= wanted:
            if event.kind == "periodic" and self._limits.confirm:
                control.emit(EvaluationRequested(event.clock, "confirm"))
            else:
                self._stop(f"solved: eval_return {score:g} >= {wanted:g}", control)
                return
        if event.kind == "periodic":
            self._count(score, control)

    def _count(self, score: float, control: Control) -> None:
        better = score > self._best + self._limits.plateau_delta or math.isinf(self._best)
        self._best, self._stale = (score, 0) if better else (self._best, self._stale + 1)
        if self._stale >= self._limits.plateau:
            told = f"plateau: {self._stale} evaluations without a better one than {self._best:g}"
            self._stop(told, control)

    def _stop(self, reason: str, control: Control) -> None:
        self._reached = reason
        control.request_stop(reason)
