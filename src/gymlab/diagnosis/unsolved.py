"""The trend of training returns, and why a run without a fault is unsolved: budget too short, or levelled off."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from gymlab.core.format import format_count
from gymlab.diagnosis.findings import RunFinding
from gymlab.reports.run_facts import Facts

_MOST = 10  # times the budget: beyond that a straight line predicts nothing
_FEWEST = 8  # points from which a trend is read


class Trend(NamedTuple):
    """The second half of the returns in training."""

    last: float  # mean of the last quarter
    rise: float  # against the quarter before
    noise: float  # of the difference between two quarters of values like these
    per_step: float  # return per env step, by a straight line

    @property
    def rising(self) -> bool:
        return self.rise > 2 * self.noise and self.per_step > 0

    @property
    def falling(self) -> bool:
        return self.rise < -2 * self.noise


def fit_trend(env_steps: np.ndarray, returns: np.ndarray) -> Trend | None:
    """Fit the trend at the end of a run; None where there are too few points."""
    count = len(returns)
    if count < _FEWEST or env_steps[-1] <= env_steps[count // 2]:
        return None
    x = env_steps[count // 2 :]
    y = returns[count // 2 :]
    middle = len(y) // 2
    before = y[:middle]
    after = y[middle:]
    # Means over a window of episodes go together, so the spread of neighbours would flatter: the line's own misfit.
    slope, at = np.polyfit(x - x[0], y, 1)
    misfit = float(np.std(y - (at + slope * (x - x[0]))))
    noise = max(misfit * math.sqrt(2 / max(len(before) / 4, 1)), 1e-9 * max(abs(float(y[-1])), 1.0))
    return Trend(float(after.mean()), float(after.mean() - before.mean()), noise, float(slope))


def unsolved_finding(facts: Facts, trend: Trend | None) -> RunFinding | None:
    """Why a finished run is unsolved; None where it is solved, still running, or has no trend."""
    goal = facts.solved_at
    if facts.summary.get("solved") is not False or goal is None or facts.status.get("status") != "finished":
        return None
    if trend is None:
        return None
    reached = f"the return of training ended at {trend.last:.4g}, {goal:g} counts as solved"
    if trend.rising:
        return _too_short(facts, trend, goal, reached)
    course = "was falling" if trend.falling else "had levelled off"
    return RunFinding(
        id="not-solved",
        kind="outcome",
        severity="info",
        title="the run ended unsolved and was no longer getting better",
        evidence=f"{reached}; it {course}",
        advice="More steps will not help. Try other seeds (--seeds 3) to see whether it is luck, then other settings: "
        "learning_rate, n_steps, policy.hidden.",
        metric="roll/return_mean",
    )


def _too_short(facts: Facts, trend: Trend, goal: float, reached: str) -> RunFinding:
    budget = facts.budget or int(facts.clock.get("env_steps", 0))
    needed = budget + max(goal - trend.last, 0.0) / trend.per_step
    steps_needed = _round_up(min(max(1.25 * needed, 1.5 * budget), _MOST * budget))
    far = f"at this pace {goal:g} is reached at about {format_count(needed)} env_steps"
    beyond = f"at this pace {goal:g} is more than {_MOST} budgets away"
    clock = " vec_steps" if "vec_steps" in str(facts.settings.get("budget", "")) else " env_steps"
    n_envs = facts.settings.get("n_envs")
    steps = steps_needed // n_envs if clock == " vec_steps" and isinstance(n_envs, int) else steps_needed
    return RunFinding(
        id="budget-short",
        kind="outcome",
        severity="info",
        title="the run ended while it was still getting better",
        evidence=f"{reached}, and it was rising; {far if needed < _MOST * budget else beyond}",
        advice=f"Train longer. Try budget={format_count(steps)}{clock}.",
        overrides={"budget": f"{format_count(steps)}{clock}"},
        metric="roll/return_mean",
    )


def _round_up(steps: float) -> int:
    """To two digits, for people."""
    size = 10 ** max(math.floor(math.log10(steps)) - 1, 0)
    return int(math.ceil(steps / size) * size)
