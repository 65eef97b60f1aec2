"""Whole episodes on every port have the returns of the same episodes on Gymnasium; docs/evaluation.md has the figures.

Where an episode's returns may differ by rounding or chance, the means agree to 1 % of the score range.
"""

import dataclasses

import numpy as np
import pytest
from benchmarks.agreement import Agreement, measure

from gymlab.envs.ports.registry import PORTS

CHEAP = ["CartPole-v1", "MountainCar-v0", "Pendulum-v1", "CliffWalking-v1", "Taxi-v4"]


@pytest.mark.parametrize("env_id", CHEAP)
def test_the_same_episodes_have_the_same_returns(env_id):
    found = measure(env_id, 60)
    assert found.holds, (found.equal, found.interval)
    assert np.ptp(found.theirs) > 0


@pytest.mark.slow
@pytest.mark.parametrize("env_id", PORTS)
def test_a_thousand_episodes_agree(env_id):
    found = measure(env_id, 1000)
    assert found.holds, (found.equal, found.interval)


def test_a_port_with_another_gravity_does_not_agree():
    found = measure("Pendulum-v1", 60, g=9.0)
    assert not found.holds, (found.equal, found.interval)


def test_neither_a_mean_that_is_off_nor_too_few_episodes_hold():
    returns = np.array([0.0, 1.0] * 500)
    found = Agreement("CartPole-v1", returns, returns, paired=True)
    assert found.equal == 1.0
    assert found.holds
    assert not dataclasses.replace(found, ours=np.where(np.arange(1000) < 40, 1.0, returns)).holds  # 2 % of them differ
    assert not dataclasses.replace(found, paired=False).holds  # +-4.4 % of the range
    many = np.tile(returns, 40)
    assert dataclasses.replace(found, theirs=many, ours=many, paired=False).holds
