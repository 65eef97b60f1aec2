"""The score of a training run: pure functions of its evaluations. Defined in docs/metrics.md."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Evaluations(NamedTuple):
    """Mean returns of the evaluations that count, over env_steps, and the return of the untrained policy."""

    env_steps: np.ndarray
    returns: np.ndarray
    first_return: float = math.nan  # of the untrained policy, as training saw it

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """The curve, from env step 0: its first value is the untrained policy's or, unknown, the first evaluation's."""
        begin = self.first_return if math.isfinite(self.first_return) else self.returns[0]
        return np.concatenate([[0.0], self.env_steps]), np.concatenate([[begin], self.returns])


class Score(NamedTuple):
    """`auc` is the number to rank runs by; higher is better."""

    auc: float | None  # mean return over `horizon` env steps; None before the first evaluation
    steps_to_threshold: int | None  # None: not reached
    threshold: float | None
    horizon: int
    partial: bool  # the run has not finished: the horizon is its current step

    def as_json(self) -> dict[str, float | int | bool | None]:
        return {
            "score/auc": self.auc,
            "score/steps_to_threshold": self.steps_to_threshold,
            "threshold": self.threshold,
            "horizon": self.horizon,
            "partial": self.partial,
        }


def steps_to_threshold(evaluations: Evaluations, threshold: float | None) -> int | None:
    """env_steps at the first evaluation whose mean return is at least the threshold."""
    if threshold is None:
        return None
    reached = np.flatnonzero(evaluations.returns >= threshold)
    return int(evaluations.env_steps[reached[0]]) if reached.size else None


def auc(evaluations: Evaluations, horizon: float) -> float | None:
    """The area under the evaluation curve from 0 to `horizon` env steps, divided by the horizon.

    Straight lines join the evaluations; after the last one its value is held, so that stopping early when solved
    costs a run nothing.
    """
    if not len(evaluations.returns) or horizon <= 0:
        return None
    x, y = evaluations.points()
    inner = x < horizon
    grid = np.concatenate([x[inner], [horizon]])
    values = np.concatenate([y[inner], [np.interp(horizon, x, y)]])
    return float(np.trapezoid(values, grid) / horizon)


def score(evaluations: Evaluations, threshold: float | None, *, budget: int | None, done: int, finished: bool) -> Score:
    """Both numbers of a run that has done so many env steps of its budget."""
    whole = finished and budget is not None
    horizon = budget if whole and budget is not None else done
    reached = steps_to_threshold(evaluations, threshold)
    return Score(auc(evaluations, horizon), reached, threshold, int(horizon), partial=not whole)


def counted_returns(greedy: np.ndarray, sampled: np.ndarray, solved_by: str) -> np.ndarray:
    """The returns that count: of the greedy policy, of the sampled one, or (both) the worse of them."""
    return np.minimum(greedy, sampled) if solved_by == "both" else sampled if solved_by == "sampled" else greedy
