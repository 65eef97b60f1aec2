"""Alert rules for the size of observations and for rewards that never come."""

import gymnasium
import numpy as np
import pytest

from gymlab.alerts import inputs
from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.metrics.bounds import Context
from tests.alerts.rows import SETTINGS, clock

pytestmark = pytest.mark.fast


def alerts(rule, rows, space=None, **settings):
    watch = AlertEngine([rule], RunContext(Context(observation=space, settings=SETTINGS | settings)))
    for update, row in enumerate(rows, 1):
        watch.fold(clock(update), {"time/progress": update / 20, **row})
    return watch.active()


def seen(low, high):
    """Rows of two features, of which the second lies within +-1."""
    row = {"env/obs_min": min(low, -1.0), "env/obs_max": max(high, 1.0)}
    return [row | {"env/obs_min/0": low, "env/obs_max/0": high, "env/obs_min/1": -1.0, "env/obs_max/1": 1.0}] * 3


def test_a_feature_of_a_million_is_named_and_normalised():
    (alert,) = alerts(inputs.OBSERVATION_SCALE, seen(-1e6, 9e5))
    assert "observation feature 0 reaches -1e+06" in alert.evidence
    assert alert.overrides == {"normalize.obs": True}
    (alert,) = alerts(inputs.OBSERVATION_SCALE, seen(5e5, 5e5))  # a constant one too
    assert not alerts(inputs.OBSERVATION_SCALE, seen(-90.0, 90.0))
    assert not alerts(inputs.OBSERVATION_SCALE, seen(-1e6, 1e6), **{"normalize.obs": True})


def test_bytes_and_choices_are_no_large_features():
    bytes_space = gymnasium.spaces.Box(0, 255, (2,), np.uint8)
    assert not alerts(inputs.OBSERVATION_SCALE, seen(0.0, 255.0), bytes_space)
    row = {"env/obs_min": 0.0, "env/obs_max": 499.0}
    assert not alerts(inputs.OBSERVATION_SCALE, [row] * 3, gymnasium.spaces.Discrete(500))
    assert alerts(inputs.OBSERVATION_SCALE, seen(-1e6, 1e6), gymnasium.spaces.Box(-1e6, 1e6, (2,)))


def paid(*shares, bonus=0.0):
    return [{"roll/reward_nonzero": share, "roll/train_reward_std": bonus} for share in shares]


def test_a_reward_that_never_comes_is_an_alert_until_one_comes():
    assert alerts(inputs.NO_REWARD, paid(*[0.0] * 5))
    assert not alerts(inputs.NO_REWARD, paid(*[0.0] * 5, 0.001))
    assert not alerts(inputs.NO_REWARD, paid(0.001, *[0.0] * 15))  # it is known to be there
    assert not alerts(inputs.NO_REWARD, paid(*[0.0] * 8, bonus=0.1))  # a wrapper pays
