"""Metrics of intrinsic rewards: the bonuses that an algorithm pays itself. They are in no return."""

from __future__ import annotations

from gymlab.metrics.metric import POSITIVE, UNBOUNDED, Metric

METRICS = (
    Metric("intrinsic/reward_mean", "Mean bonus per step, before its coefficient.", "reward", ".4g", 1, UNBOUNDED,
           healthy="Falls as states become known. One that stays as it was rewards what cannot be learnt, such as "
           "noise."),
    Metric("intrinsic/reward_std", "Standard deviation of the bonus over the steps of an update.", "reward", ".4g", 2,
           POSITIVE, healthy="Above 0: equal everywhere, the bonus tells no state from another."),
)  # fmt: skip
