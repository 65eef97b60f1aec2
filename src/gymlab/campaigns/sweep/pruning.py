"""Which trials are pruned at a rung: decided from the trial store alone, so that every process decides the same.

halving: the trials of a round are compared at each rung, and one in three continues. median: a trial is pruned if it is
below the median of the trials of earlier rounds at the same rung. Neither depends on which trial was first.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gymlab.campaigns.sweep.plan import SweepPlan
    from gymlab.campaigns.sweep.store import Trial

ETA = 3  # halving's reduction factor: one of `ETA` trials continues past a rung
Decision = Literal["continue", "prune", "wait"]
_HALVING = (ETA**-2, ETA**-1)  # of the budget
_MEDIAN = (0.25, 0.5, 0.75)


def rungs_for(prune: str, budget_env_steps: int, rollout: int) -> tuple[int, ...]:
    """env_steps of the rungs; those within the first update are left out."""
    shares = {"none": (), "halving": _HALVING, "median": _MEDIAN}[prune]
    return tuple(dict.fromkeys(steps for share in shares if (steps := round(share * budget_env_steps)) > rollout))


def decide(plan: SweepPlan, trials: Sequence[Trial], index: int, rung: int) -> Decision:
    """Whether a trial that has reached a rung continues past it."""
    if plan.prune == "median":
        return _decide_by_median(plan, trials, index, rung)
    return _decide_by_rank(plan, trials, index, rung)


def _decide_by_median(plan: SweepPlan, trials: Sequence[Trial], index: int, rung: int) -> Decision:
    begin = plan.members(plan.round_of(index)).start
    earlier = [trial.rungs[rung] for trial in trials[:begin] if rung in trial.rungs]
    if not earlier:
        return "continue"
    return "prune" if trials[index].rungs[rung] < statistics.median(earlier) else "continue"


def _decide_by_rank(plan: SweepPlan, trials: Sequence[Trial], index: int, rung: int) -> Decision:
    """Ties go to the trial that was drawn first. Waits while a trial of the round has yet to reach this rung."""
    members = plan.members(plan.round_of(index))
    if len(trials) < members.stop:
        return "wait"
    arrived = [trials[place] for place in members if rung in trials[place].rungs]
    coming = [trials[place] for place in members if rung not in trials[place].rungs and not trials[place].ended]
    ranked = sorted(arrived, key=lambda trial: (-trial.rungs[rung], trial.index))
    places = max(1, len(members) // ETA ** (rung + 1))
    if [trial.index for trial in ranked].index(index) >= places:
        return "prune"  # trials that arrive later can only push it further down
    return "wait" if coming else "continue"
