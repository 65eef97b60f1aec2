"""Alert rules for gradients and units."""

import pytest

from gymlab.alerts import network
from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.metrics.bounds import Context
from tests.alerts.rows import SETTINGS, clock

pytestmark = pytest.mark.fast


def alerts(rule, rows, **settings):
    watch = AlertEngine([rule], RunContext(Context(settings=SETTINGS | settings)))
    for update, row in enumerate(rows, 1):
        watch.fold(clock(update), {"time/progress": update / 20, "roll/return_mean": 20.0, **row})
    return watch.active()


def units(first, second, **more):
    whole = {"opt/saturated_units": (first + second) / 2}
    layers = {"opt/saturated_units/policy_trunk.0": first, "opt/saturated_units/policy_trunk.1": second}
    return [{**whole, **layers, **more}] * 3


def test_a_saturated_layer_is_an_alert_and_a_busy_one_is_not():
    (alert,) = alerts(network.SATURATED_UNITS, units(0.99, 0.2))
    assert alert.metric == "opt/saturated_units/policy_trunk.0"
    assert alert.overrides == {"normalize.obs": True}
    (alert,) = alerts(network.SATURATED_UNITS, units(0.2, 0.97), **{"normalize.obs": True})
    assert alert.overrides == {"ppo.learning_rate": "lin_0.0003"}
    assert not alerts(network.SATURATED_UNITS, units(0.75, 0.6))
    assert not alerts(network.SATURATED_UNITS, units(0.3, 0.85))  # as in healthy runs
    assert not alerts(network.SATURATED_UNITS, units(0.99, 0.2, **{"roll/return_mean": 470.0}))  # it is solved


def test_units_that_never_fire_are_an_alert():
    def rows(share):
        return [{"opt/dead_units/policy_trunk.0": share, "opt/dead_units/policy_trunk.1": 0.1}] * 3

    assert alerts(network.DEAD_UNITS, rows(0.6))
    assert not alerts(network.DEAD_UNITS, rows(0.45))


def norms(*values):
    return [{"opt/grad_norm": value, "hp/max_grad_norm": 0.5} for value in values]


def test_two_spikes_of_the_gradient_are_an_alert():
    usual = [1.0] * 12
    assert alerts(network.SPIKES, norms(*usual, 150.0, 1.0, 150.0))
    assert not alerts(network.SPIKES, norms(*usual, 150.0, 1.0))
    assert not alerts(network.SPIKES, norms(*usual, 50.0, 1.0, 50.0))


def test_gradients_that_are_always_clipped_hard_are_an_alert():
    assert alerts(network.CLIPPED, norms(*[11.0] * 21))
    assert not alerts(network.CLIPPED, norms(*[9.0] * 21))
