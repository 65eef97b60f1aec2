"""Which trials go on at a rung: decided from what stands in the book, so that everybody decides the same.

halving: the trials of a round are compared at each rung, and one in three goes on. median: a trial is given up when it
is below the median that the trials of earlier rounds had at the same rung. Neither looks at who came first.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

from gymlab.campaigns.sweep.plan import ETA, Plan
from gymlab.campaigns.sweep.trial import Row

Decision = Literal["go on", "give up", "wait"]
_HALVING = (ETA**-2, ETA**-1)  # of the budget
_MEDIAN = (0.25, 0.5, 0.75)


def rungs_for(prune: str, budget_env_steps: int, rollout: int) -> tuple[int, ...]:
    """env_steps of the rungs; those within the first update are left out."""
    shares = {"none": (), "halving": _HALVING, "median": _MEDIAN}[prune]
    return tuple(dict.fromkeys(steps for share in shares if (steps := round(share * budget_env_steps)) > rollout))


def decide(plan: Plan, rows: Sequence[Row], index: int, rung: int) -> Decision:
    """What becomes of a trial that has reached a rung."""
    if plan.prune == "median":
        return _below_median(plan, rows, index, rung)
    return _among_best(plan, rows, index, rung)


def _below_median(plan: Plan, rows: Sequence[Row], index: int, rung: int) -> Decision:
    begin = plan.members(plan.round_of(index)).start
    before = [row.rungs[rung] for row in rows[:begin] if rung in row.rungs]
    if not before:
        return "go on"
    return "give up" if rows[index].rungs[rung] < statistics.median(before) else "go on"


def _among_best(plan: Plan, rows: Sequence[Row], index: int, rung: int) -> Decision:
    """Ties go to the trial that was drawn first. Wait until nobody of the round is still on its way to this rung."""
    members = plan.members(plan.round_of(index))
    if len(rows) < members.stop:
        return "wait"
    arrived = [rows[place] for place in members if rung in rows[place].rungs]
    coming = [rows[place] for place in members if rung not in rows[place].rungs and not rows[place].ended]
    ranked = sorted(arrived, key=lambda row: (-row.rungs[rung], row.index))
    places = max(1, len(members) // ETA ** (rung + 1))
    if [row.index for row in ranked].index(index) >= places:
        return "give up"  # those who come later can only push it further down
    return "wait" if coming else "go on"
