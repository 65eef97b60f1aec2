"""Alert rules for the policy."""

import gymnasium
import pytest

from gymlab.alerts import policy
from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.metrics.bounds import Context
from tests.alerts.rows import SETTINGS, clock

pytestmark = pytest.mark.fast

BOX = gymnasium.spaces.Box(0.0, 1.0, (2,))


def alerts(rule, rows, space=BOX, **settings):
    watch = AlertEngine([rule], RunContext(Context(space, settings=SETTINGS | settings)))
    for update, row in enumerate(rows, 1):
        watch.fold(clock(update), {"time/progress": update / 20, "roll/return_mean": 20.0, **row})
    return watch.active()


def clipped(*shares, entropy=2.8):
    return [{"roll/action_clipped": share, "opt/entropy": entropy} for share in shares]


def test_exploration_that_is_lost_at_the_edges_is_an_alert():
    (alert,) = alerts(policy.ACTIONS_CLIPPED, clipped(0.64, 0.64, 0.6), **{"policy.log_std_init": 0.0})
    assert alert.overrides == {"policy.log_std_init": -1.4}  # a quarter of the width
    assert not alerts(policy.ACTIONS_CLIPPED, clipped(*[0.33] * 5))
    (centred,) = alerts(policy.ACTIONS_CLIPPED, clipped(*[0.5] * 3), **{"policy.log_std_init": -2.0})
    assert centred.overrides == {}


def test_a_policy_that_has_learnt_to_act_at_the_edges_is_no_alert():
    learnt = [*clipped(0.1), *clipped(0.5, 0.6, 0.7, entropy=1.0)]
    assert not alerts(policy.ACTIONS_CLIPPED, learnt)
    (grown,) = alerts(policy.ACTIONS_CLIPPED, [*clipped(0.1), *clipped(0.5, 0.6, 0.7, entropy=4.0)],
                      **{"ppo.entropy_coef": 0.1})  # fmt: skip
    assert grown.overrides == {"ppo.entropy_coef": 0.01}
