"""Broken invariants are named; `-O` leaves the assertions out, and a run computes the same without them."""

import subprocess
import sys

import numpy as np
import pytest

from gymlab.core.types import Rollout
from gymlab.training.invariants import ending_fault, rollout_fault

N = 3


def rollout(**changed):
    flags = np.zeros((4, N), bool)
    per_step = np.zeros((4, N))
    obs = np.zeros((4, N, 2))
    sound = Rollout(obs, per_step, per_step, per_step, per_step, {}, flags, flags, flags, obs, np.zeros((N, 2)), (), {})
    return sound._replace(**changed)


@pytest.mark.fast
def test_a_sound_rollout_passes():
    assert ending_fault(rollout()) == ""
    assert rollout_fault(rollout()) == ""


@pytest.mark.fast
def test_an_env_that_ends_in_both_ways_is_named():
    flags = np.zeros((4, N), bool)
    flags[2, 1] = True
    assert ending_fault(rollout(terminated=flags)) == ""
    fault = ending_fault(rollout(terminated=flags, truncated=flags))
    assert fault == "env 1 is terminated and truncated at once in step 3 of the rollout"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"log_prob": np.zeros((N, 4))}, "log_prob has shape (3, 4) in a rollout of (4, 3)"),
        ({"truncated": np.zeros((4, N))}, "truncated is float64 and not bool"),
        ({"successor": {"a": np.zeros((5, N, 1))}}, "successor has shape (5, 3, 1) in a rollout of (4, 3)"),
        ({"last_obs": np.zeros((4, N))}, "last_obs has shape (4, 3) in a rollout of (4, 3)"),
        ({"reward": np.zeros(4)}, "reward has shape (4,) and not (steps, envs)"),
    ],
)
def test_a_broken_rollout_is_named(changed, fault):
    assert rollout_fault(rollout(**changed)) == fault


BROKEN = """
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.settings import EnvSettings
from gymlab.core.types import Decision
from gymlab.training.collector_host import HostCollector
import jax, jax.numpy as jnp, numpy as np

class Broken(GymnasiumEngine):
    def step(self, action, active=None):
        both = np.array([False, True])
        return super().step(action, active)._replace(terminated=both, truncated=both)

def act(policy, obs, carry, key, greedy):
    return Decision(jnp.zeros(2, jnp.int32), jnp.zeros(2), carry, {})

with Broken(EnvSettings(id="CartPole-v1"), 2, 0) as engine:
    collector = HostCollector(engine, (), act, (), 1)
    collector.collect((), collector.begin(), jax.random.key(0))
    print("collected")
"""


def test_o_leaves_the_assertions_out():
    def run(*flags):
        return subprocess.run(
            [sys.executable, *flags, "-c", BROKEN], capture_output=True, text=True, check=False, timeout=120
        )

    checked = run()
    assert checked.returncode != 0
    assert "AssertionError: env 1 is terminated and truncated at once in step 1 of the rollout" in checked.stderr
    assert run("-O").stdout.splitlines() == ["collected"]
