"""The plan of a run: clocks, progress and scheduled values of its updates, and its rows."""

import math

import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.metrics.run_totals import RunTotals
from gymlab.recipes.resolve import resolve
from gymlab.recipes.schema import Steps
from gymlab.session.build import make_plan
from gymlab.training.run_plan import RunPlan
from gymlab.training.trainer import LARGEST_CLOCK, UpdateMetrics, hyperparameters, learning_clock

pytestmark = pytest.mark.fast


def test_gradient_steps_are_those_taken_and_none_in_a_skipped_update():
    plan = RunPlan(16, 4, 640, "env_steps", math.inf, [], lambda _: np.zeros(0), lambda _: 0.0)
    taken = [8.0, 3.0, math.nan, 8.0]  # the second was ended by target_kl, the third skipped
    rows = [UpdateMetrics({"roll/episodes": 1.0, "opt/gradient_steps": steps}) for steps in taken]
    start = Clock(updates=1, vec_steps=16, env_steps=64, episodes=5, seconds=1.0, gradient_steps=8)
    stamped = plan.stamp(start, rows, np.zeros((4, 1)), 3.0, RunTotals())
    assert [row.clock.gradient_steps for row in stamped] == [16, 19, 19, 27]
    assert stamped[-1].clock == Clock(5, 80, 320, 9, 3.0, 27)


def test_an_algorithm_that_counts_no_gradient_steps_has_none():
    plan = RunPlan(16, 4, 640, "env_steps", math.inf, [], lambda _: np.zeros(0), lambda _: 0.0)
    (row,) = plan.stamp(Clock(), [UpdateMetrics({"roll/episodes": 0.0})], np.zeros((1, 1)), 1.0, RunTotals())
    assert row.clock == Clock(1, 16, 64, 0, 1.0, 0)


def plan_of(horizon=None):
    recipe = resolve(
        "CartPole-v1:ppo",
        ["n_envs=4", "n_steps=8", "batch_size=32", "learning_rate=lin_1"],
        budget="320 env_steps",
    ).recipe
    return make_plan(recipe, horizon or recipe.budget)


def test_progress_and_schedules_follow_the_clock_not_the_number_of_updates():
    # Half of 320 steps done, whether in 5 updates of 32 or in 20 of 8 by a run that was resumed with larger rollouts.
    plan = plan_of()
    rate = plan.hp_names.index("learning_rate")
    for updates in (5, 20):
        values = plan.scheduled(Clock(updates=updates, vec_steps=40, env_steps=160), 2)
        np.testing.assert_allclose(values[:, rate], [0.5, 0.4])
        np.testing.assert_allclose(values[:, -1], [0.5, 0.6])


def test_progress_ends_at_the_horizon():
    plan = plan_of(horizon=Steps(count=64, clock="env_steps"))
    np.testing.assert_array_equal(plan.scheduled(Clock(), 4)[:, -1], [0, 0.5, 1, 1])


def test_an_update_gets_its_clocks_as_integers_that_saturate():
    plan = plan_of()
    values = plan.scheduled(Clock(), 1)[0]
    hp = hyperparameters(plan.hp_names, values, learning_clock(Clock(7, 10, 2**40, gradient_steps=9)))
    assert {*plan.hp_names, "progress", "update", "env_steps", "gradient_steps"} == hp.keys()
    assert [hp[name] for name in ("update", "env_steps", "gradient_steps")] == [7, LARGEST_CLOCK, 9]
    assert {hp[name].dtype for name in ("update", "env_steps", "gradient_steps")} == {np.dtype("int32")}


@pytest.mark.parametrize(("clock", "start", "left"), [
    ("env_steps", Clock(), 10),  # 320 steps in updates of 32
    ("env_steps", Clock(updates=100, vec_steps=25, env_steps=100), 7),  # 220 are left, however many updates took 100
    ("vec_steps", Clock(updates=1, vec_steps=310, env_steps=1240), 2),
    ("env_steps", Clock(updates=1, vec_steps=100, env_steps=400), 0),  # a budget that was used up before it was cut
])  # fmt: skip
def test_what_is_left_of_a_budget_follows_from_the_clock_alone(clock, start, left):
    recipe = resolve("CartPole-v1:ppo", ["n_envs=4", "n_steps=8", "batch_size=32"], budget=f"320 {clock}").recipe
    plan = make_plan(recipe, recipe.budget)
    assert plan.left(start) == left
    assert plan.last_update(start) == start.updates + left


def test_progress_is_the_share_of_the_budget_on_its_clock():
    start = Clock(updates=20, vec_steps=40, env_steps=160)  # half of the budget, in updates of other sizes
    rows = [UpdateMetrics({"roll/episodes": 0.0}) for _ in range(6)]
    stamped = plan_of().stamp(start, rows, np.zeros((6, len(plan_of().hp_names) + 1)), 1.0, RunTotals())
    np.testing.assert_allclose([row.metrics["time/progress"] for row in stamped], [0.6, 0.7, 0.8, 0.9, 1, 1])
