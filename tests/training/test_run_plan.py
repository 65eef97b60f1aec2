"""The rows of a run: their clocks."""

import math

import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.metrics.run_totals import RunTotals
from gymlab.training.run_plan import RunPlan
from gymlab.training.trainer import UpdateMetrics

pytestmark = pytest.mark.fast


def test_gradient_steps_are_those_taken_and_none_in_a_skipped_update():
    plan = RunPlan(16, 4, 10, math.inf, [], lambda _: np.zeros(0))
    taken = [8.0, 3.0, math.nan, 8.0]  # the second was ended by target_kl, the third skipped
    rows = [UpdateMetrics({"roll/episodes": 1.0, "opt/gradient_steps": steps}) for steps in taken]
    start = Clock(updates=1, vec_steps=16, env_steps=64, episodes=5, seconds=1.0, gradient_steps=8)
    stamped = plan.stamp(start, rows, np.zeros((4, 0)), 3.0, RunTotals())
    assert [row.clock.gradient_steps for row in stamped] == [16, 19, 19, 27]
    assert stamped[-1].clock == Clock(5, 80, 320, 9, 3.0, 27)


def test_an_algorithm_that_counts_no_gradient_steps_has_none():
    plan = RunPlan(16, 4, 10, math.inf, [], lambda _: np.zeros(0))
    (row,) = plan.stamp(Clock(), [UpdateMetrics({"roll/episodes": 0.0})], np.zeros((1, 0)), 1.0, RunTotals())
    assert row.clock == Clock(1, 16, 64, 0, 1.0, 0)
