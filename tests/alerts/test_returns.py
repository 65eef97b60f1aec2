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
