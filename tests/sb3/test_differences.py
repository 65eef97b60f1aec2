"""Where the Stable-Baselines3 shape differed in silence: what runs now, and what is refused with what to do."""

import random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from gymlab import A2C, PPO
from gymlab.core.errors import UserError
from gymlab.sb3 import DummyVecEnv, Monitor, VecEnv, evaluate_policy, make_vec_env
from tests.example_envs import Variable

TINY = {"n_steps": 8, "policy_kwargs": {"net_arch": [4]}}


class Short(gymnasium.Env):
    """Ten steps; `draws` says where its observations come from. Its reset takes no `options`."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, draws="own"):
        self.draws = draws
        self.action_space = spaces.Discrete(2)

    def _draw(self):
        if self.draws == "random":
            return random.random()
        if self.draws == "numpy":
            return np.random.random()
        if self.draws == "action_space":
            return float(self.action_space.sample())
        return self.np_random.random()

    def reset(self, seed=None):
        super().reset(seed=seed)
        self.t = 0
        return np.full(2, self._draw(), np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(2, self._draw(), np.float32), self._draw(), self.t == 10, False, {}


def weights(model):
    return {name: array.tobytes() for name, array in model.get_parameters()["policy"].items()}


@pytest.mark.parametrize("draws", ["own", "random", "numpy", "action_space"])
def test_seed_reaches_every_generator_that_an_env_may_draw_from(draws):
    one, two = (A2C("MlpPolicy", Short(draws), seed=7, **TINY).learn(24) for _ in range(2))
    assert weights(one) == weights(two)
    assert weights(one) != weights(A2C("MlpPolicy", Short(draws), seed=8, **TINY).learn(24))


def test_get_env_is_seeded():
    first = [PPO("MlpPolicy", gymnasium.make("CartPole-v1"), seed=0).get_env().reset() for _ in range(2)]
    of_id = [PPO("MlpPolicy", "CartPole-v1", seed=0).get_env().reset() for _ in range(2)]
    assert (first[0] == first[1]).all()
    assert (of_id[0] == of_id[1]).all()


class Paying(DummyVecEnv):
    def step_wait(self):
        obs, rewards, dones, infos = super().step_wait()
        return obs, rewards * 0 - 5, dones, infos


class OwnReset(DummyVecEnv):
    def reset(self):
        return super().reset() * 0


@pytest.mark.parametrize(("kind", "method"), [(Paying, "Paying.step_wait"), (OwnReset, "OwnReset.reset")])
def test_a_vec_env_whose_own_methods_would_not_be_called_is_refused(kind, method):
    with pytest.raises(UserError, match=rf"{method} would not be called .* gymnasium.Wrapper"):
        PPO("MlpPolicy", kind([Variable]))
    with pytest.raises(UserError, match=rf"{method} would not be called"):
        PPO("MlpPolicy", make_vec_env(Variable, vec_env_cls=kind))


def test_a_vec_env_of_ones_own_says_what_to_do():
    class Batched(VecEnv):
        def __init__(self):
            super().__init__(2, Short.observation_space, spaces.Discrete(2))

    with pytest.raises(UserError, match=r"Batched: .* functions that make a gymnasium\.Env"):
        Batched()


def test_evaluation_shows_its_callback_what_was_acted_on():
    class Recorder:
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            self.seen = observation.copy()
            return np.zeros(len(observation), int), state

    model = Recorder()
    pairs = []

    def callback(local, _):
        assert local["model"] is model
        assert (local["observations"] == model.seen).all()
        assert not (local["new_observations"] == local["observations"]).all()
        pairs.append((local["i"], local["current_lengths"][local["i"]], local["actions"][local["i"]]))
        assert set(local) >= {
            "rewards",
            "dones",
            "infos",
            "episode_rewards",
            "episode_lengths",
            "env",
            "reward",
            "done",
        }

    evaluate_policy(model, make_vec_env(Short, n_envs=2, seed=0), n_eval_episodes=2, callback=callback)
    assert pairs == [(i, t, 0) for t in range(1, 11) for i in range(2)]


def test_monitor_honours_its_arguments(tmp_path):
    class Levels(Short):
        def reset(self, seed=None, level=None):
            return super().reset(seed)

    env = Monitor(Levels(), str(tmp_path / "log"), allow_early_resets=False, reset_keywords=("level",))
    assert DummyVecEnv([lambda: env]).get_attr("allow_early_resets") == [False]
    with pytest.raises(RuntimeError, match="needs reset"):
        env.step(0)
    with pytest.raises(ValueError, match="level"):
        env.reset()
    env.reset(level=3)
    env.step(0)
    with pytest.raises(RuntimeError, match="reset an environment before done"):
        env.reset(level=4)
    for _ in range(9):
        env.step(0)
    with pytest.raises(RuntimeError, match="needs reset"):
        env.step(0)
    env.close()
    _, header, row = (tmp_path / "log.monitor.csv").read_text().splitlines()
    assert header == "r,l,t,level"
    assert row.split(",")[1::2] == ["10", "3"]
