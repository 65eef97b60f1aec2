"""ScoreMetrics: the run's score after every evaluation, as reports compute it at the end."""

from __future__ import annotations

import math

import numpy as np

from gymlab.core.clock import Clock
from gymlab.reports.scoring import Evaluations, auc, steps_to_threshold
from gymlab.training.events import Control, Evaluated, Event, Feature, FeatureState, Measured, Updated


class ScoreMetrics(Feature):
    """`budget` (env steps): the final evaluation is scored over it, earlier ones over the steps so far."""

    name = "score"

    def __init__(self, threshold: float | None, solved_by: str, budget: int) -> None:
        self._threshold = threshold
        self._solved_by = solved_by
        self._budget = budget
        self._first = math.nan
        self._points: dict[int, float] = {}  # env steps -> return

    def state(self) -> FeatureState:
        first = None if math.isnan(self._first) else self._first
        points = [list(point) for point in self._points.items()]
        return {"first": first, "points": points} if points or first is not None else {}

    def restore(self, state: FeatureState) -> None:
        self._first = math.nan if state["first"] is None else state["first"]
        self._points = {int(at): value for at, value in state["points"]}

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated) and math.isnan(self._first):  # of every update, however few rows are stored
            returns = [row.metrics.get("roll/return_mean", math.nan) for row in event.rows]
            self._first = next((value for value in returns if math.isfinite(value)), math.nan)
        elif isinstance(event, Evaluated) and event.clock.updates > 0:
            self._evaluated(event, control)

    def _evaluated(self, event: Evaluated, control: Control) -> None:
        score = event.evaluation.judged_by(self._solved_by)
        if not math.isfinite(score):
            return
        self._points[event.clock.env_steps] = score
        horizon = self._budget if event.kind == "final" else event.clock.env_steps
        control.emit(Measured(event.clock, self._scores(event.clock, horizon)))

    def _scores(self, clock: Clock, horizon: int) -> dict[str, float]:
        points = sorted((at, value) for at, value in self._points.items() if at <= clock.env_steps)
        at, returns = np.array(points, np.float64).T
        evaluations = Evaluations(at, returns, self._first)
        area = auc(evaluations, horizon)
        reached = steps_to_threshold(evaluations, self._threshold)
        found = {} if math.isnan(self._first) else {"score/first_return": self._first}
        if area is not None:
            found["score/auc"] = area
        if reached is not None:
            found["score/steps_to_threshold"] = float(reached)
            # n_envs never changes within a run, so both clocks keep their ratio
            found["score/vec_steps_to_threshold"] = float(reached * clock.vec_steps // clock.env_steps)
        return found
