"""Alert rules for episodes, returns and evaluations."""

import gymnasium
import pytest

from gymlab.alerts import returns
from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.metrics.bounds import Context
from tests.alerts.rows import SETTINGS, clock

pytestmark = pytest.mark.fast


def run_of(limit=500, **settings):
    return RunContext(Context(gymnasium.spaces.Discrete(2), max_episode_steps=limit, settings=SETTINGS | settings))


def raised(rule, rows, watch=None, *, start=1, run=None, total=20):
    """Whether the rule is raised after these rows."""
    watch = watch or AlertEngine([rule], run or run_of())
    for update, row in enumerate(rows, start):
        watch.fold(clock(update), {"time/progress": update / total, "roll/return_window": 100.0, **row})
    return bool(watch.active())


def training(*values):
    return [{"roll/return_mean": float(value)} for value in values]


def test_a_return_that_is_lost_again_is_a_collapse_and_a_dip_is_none():
    assert raised(returns.COLLAPSED, training(20, 60, 100, 30, 30, 30))
    assert not raised(returns.COLLAPSED, training(20, 60, 100, 70, 70, 70))


def test_a_shorter_time_limit_is_no_collapse():
    before = AlertEngine([returns.COLLAPSED], run_of(limit=500))
    assert not raised(returns.COLLAPSED, training(20, 60, 100), before)
    for limit, expected in ((500, True), (20, False)):
        after = AlertEngine([returns.COLLAPSED], run_of(limit=limit))
        after.restore(before.state())
        assert raised(returns.COLLAPSED, training(20, 20, 20, 20), after, start=4) == expected


def no_end(limit, budget, at, **settings):
    """Whether four envs in which nothing has ended raise the alert after `at` steps each."""
    run = run_of(limit, budget=f"{budget} env_steps", **settings)
    watch = AlertEngine([returns.NO_EPISODE], run)
    for update in range(1, at // 25 + 1):
        watch.fold(clock(update), {"time/progress": 100 * update / budget, "roll/return_window": 0.0})
    return watch.alerts()


def test_an_episode_that_could_not_have_ended_yet_is_no_alert():
    assert no_end(limit=500, budget=4000, at=475) == []  # 1,000 steps of each env: the limit will end the first ones
    (late,) = no_end(limit=500, budget=4000, at=1000)
    assert "time limit should have ended" in late.advice


def test_a_budget_shorter_than_an_episode_is_an_alert_and_the_advice_leaves_the_task_as_it_is():
    (alert,) = no_end(limit=500, budget=1600, at=150)
    assert "the budget is 400 of them, the time limit 500" in alert.evidence
    assert alert.overrides == {"budget": "20k env_steps"}  # ten episodes of four envs
    (unlimited,) = no_end(limit=None, budget=4000, at=200)
    assert unlimited.overrides == {"env.max_episode_steps": 20}


def evaluated(window, score):
    rows = [{"roll/return_mean": 47.0, "roll/return_min": 40.0, "roll/return_window": window,
             "eval/sampled_mean": score, "eval/sampled_episodes": 10.0}] * 3  # fmt: skip
    return raised(returns.EVAL_GAP, rows)


def test_evaluation_is_compared_with_a_full_window_only():
    assert evaluated(100.0, 9.0)
    assert not evaluated(1.0, 9.0)
    assert not evaluated(100.0, 39.0)
