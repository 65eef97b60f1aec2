"""Other physics in every episode: a function of the episode's seed, set before its first step."""

from __future__ import annotations

import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.envs.make import make_env
from gymlab.envs.settings import EnvSettings

pytestmark = pytest.mark.fast


def made(env_id, **ranges):
    return make_env(EnvSettings(id=env_id, wrappers=({"randomize": ranges},)))


def trace(env, seed, steps=40):
    env.action_space.seed(0)
    rows = [env.reset(seed=seed)[0]]
    for _ in range(steps):
        obs, _, terminated, *_ = env.step(env.action_space.sample())
        rows.append(obs)
        if terminated:
            break
    return np.concatenate(rows).tobytes()


@pytest.mark.parametrize(
    ("env_id", "ranges"),
    [
        ("CartPole-v1", {"gravity": [5, 15], "length": [0.3, 0.8], "force_mag": [8, 12]}),
        ("MountainCar-v0", {"gravity": [0.002, 0.003]}),
        ("Pendulum-v1", {"g": [5, 15], "l": [0.8, 1.2]}),
        ("LunarLander-v3", {"gravity": [-11, -8], "wind_power": [0, 15], "turbulence_power": [0, 2]}),
    ],
)
def test_an_episode_is_a_function_of_its_seed(env_id, ranges):
    env = made(env_id, **ranges)
    first = trace(env, 7)
    values = env.reset(seed=7)[1]["randomized"]
    assert list(values) == list(ranges)
    for name, (low, high) in ranges.items():
        assert low <= values[name] <= high
        assert getattr(env.unwrapped, name) == values[name]
    assert env.reset(seed=8)[1]["randomized"] != values
    assert trace(env, 7) == first == trace(made(env_id, **ranges), 7)
    plain = make_env(EnvSettings(id=env_id))
    assert trace(plain, 7) != first
    plain.close()
    env.close()


def test_gravity_rules_the_lunar_landers_world_and_wind_is_switched_on():
    env = made("LunarLander-v3", gravity=[-9, -8], wind_power=[1, 2])
    _, info = env.reset(seed=3)
    assert env.unwrapped.world.gravity[1] == pytest.approx(info["randomized"]["gravity"], rel=1e-6)
    assert env.unwrapped.enable_wind
    assert env.unwrapped.wind_power == info["randomized"]["wind_power"]
    env.close()


def test_what_cartpole_derives_follows():
    env = made("CartPole-v1", length=[1, 1], masspole=[0.3, 0.3])
    env.reset(seed=0)
    assert env.unwrapped.polemass_length == pytest.approx(0.3)
    assert env.unwrapped.total_mass == pytest.approx(1.3)


def test_ranges_of_one_value_change_nothing_else():
    env = made("LunarLander-v3", gravity=-10)
    plain = make_env(EnvSettings(id="LunarLander-v3"))
    assert trace(env, 5) == trace(plain, 5)
    env.close()
    plain.close()


def test_draws_fill_the_range_and_need_no_seed():
    env = made("CartPole-v1", gravity=[0, 10])
    drawn = [env.reset(seed=seed)[1]["randomized"]["gravity"] for seed in range(400)]
    assert abs(np.mean(drawn) - 5) < 0.5
    assert abs(np.std(drawn) - 10 / 12**0.5) < 0.3
    assert env.reset()[1]["randomized"] != env.reset()[1]["randomized"]


@pytest.mark.parametrize(
    ("ranges", "told"),
    [
        ({"gravty": [1, 2]}, r"CartPoleEnv has no numeric parameter 'gravty': did you mean 'gravity'\?"),
        ({"gravity": [2, 1]}, r"gravity=\[2, 1\] must be \[low, high\]"),
        ({"gravity": "moon"}, "gravity='moon' must be"),
        ({}, "give at least one range"),
    ],
)
def test_a_wrong_range_is_explained(ranges, told):
    with pytest.raises(UserError, match=told):
        made("CartPole-v1", **ranges)
