"""Alert rules for the first rollout."""

import gymnasium
import pytest

from gymlab.alerts import initial_policy
from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.metrics.bounds import Context
from tests.alerts.rows import SETTINGS, clock

pytestmark = pytest.mark.fast


def judged(rule, row, space, n_envs=8, n_steps=32):
    """The alert that the first rollout's metrics raise, or None."""
    settings = SETTINGS | {"n_envs": n_envs, "n_steps": n_steps}
    watch = AlertEngine([rule], RunContext(Context(space, settings=settings)))
    watch.fold(clock(1), {"time/progress": 0.01, **row})
    return watch.active()[0] if watch.active() else None


def shares(*values):
    return {f"roll/action_share/{action}": value for action, value in enumerate(values)}


def test_a_favourite_needs_enough_choices_to_show():
    two = gymnasium.spaces.Discrete(2)
    assert judged(initial_policy.POLICY, shares(0.8, 0.2), two) is not None  # 256 choices
    assert judged(initial_policy.POLICY, shares(0.8, 0.2), two, n_envs=1, n_steps=5) is None  # 4 of 5
    assert judged(initial_policy.POLICY, shares(1.0, 0.0), two, n_envs=1, n_steps=32) is not None
    assert judged(initial_policy.POLICY, shares(0.6, 0.4), two) is None
    many = gymnasium.spaces.Discrete(18)
    thrice = [3 / 36] * 8 + [1 / 36] * 6 + [2 / 36] * 3 + [0.0]  # 36 draws of 18 leave some out and double others
    assert judged(initial_policy.POLICY, shares(*thrice), many, n_envs=4, n_steps=9) is None
    assert judged(initial_policy.POLICY, shares(0.66, *[0.02] * 17), many) is not None
