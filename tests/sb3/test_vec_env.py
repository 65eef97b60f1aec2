"""Vectorised envs with Stable-Baselines3's contract, Monitor and evaluate_policy."""

import gymnasium
import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.sb3 import DummyVecEnv, Monitor, SubprocVecEnv, VecEnv, evaluate_policy, make_vec_env
from tests.example_envs import Custom, Variable


def play(env: VecEnv, steps: int, action):
    """All steps of a fixed action: (obs, rewards, dones, infos) each."""
    env.reset()
    return [env.step([action] * env.num_envs) for _ in range(steps)]


def test_a_step_gives_four_arrays_and_resets_by_itself():
    env = make_vec_env(Variable, n_envs=3, seed=0)
    obs = env.reset()
    assert obs.shape == (3, 1)
    assert obs.dtype == np.float32
    np.testing.assert_array_equal(obs, 1.0)  # every episode starts full
    seen = 0
    for _ in range(12):
        obs, rewards, dones, infos = env.step([0, 0, 0])
        assert (rewards.dtype, dones.dtype, len(infos)) == (np.float32, bool, 3)
        for i in np.flatnonzero(dones):
            seen += 1
            assert obs[i] == 1.0  # the next episode's first
            assert infos[i]["terminal_observation"] == 0.0  # the ended one's last
            assert infos[i]["TimeLimit.truncated"] is False
            assert infos[i]["episode"]["l"] == infos[i]["episode"]["r"]  # pays 1 a step
        assert all("terminal_observation" not in info for info, done in zip(infos, dones, strict=True) if not done)
    assert seen >= 3


def test_a_time_limit_is_told_from_an_end():
    env = DummyVecEnv([lambda: gymnasium.wrappers.TimeLimit(Variable(), 2)])
    *_, (_, _, dones, infos) = play(env, 2, 0)  # episodes have 3 steps at least
    assert dones[0]
    assert infos[0]["TimeLimit.truncated"] is True


def test_dict_observations_are_stacked_by_key():
    env = make_vec_env(Custom, n_envs=2, seed=0)
    obs = env.reset()
    assert obs["position"].shape == (2, 2)
    assert obs["kind"].shape == (2,)
    obs, rewards, _, _ = env.step(np.zeros((2, 2), int))
    assert obs["position"].shape == (2, 2)
    assert rewards.shape == (2,)


def test_the_same_seed_gives_the_same_episodes_and_each_env_its_own():
    first, second = (make_vec_env("CartPole-v1", n_envs=2, seed=3).reset() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0], first[1])
    env = make_vec_env("CartPole-v1", n_envs=2)
    assert env.seed(3) == [3, 4]
    np.testing.assert_array_equal(env.reset(), first)
    assert not np.array_equal(env.reset(), first)  # a seed serves one reset


def test_attributes_and_methods_are_reached_through_the_wrappers():
    env = make_vec_env("CartPole-v1", n_envs=2)
    assert env.get_attr("gravity") == [9.8, 9.8]
    env.set_attr("gravity", 1.0, indices=1)
    assert env.get_attr("gravity") == [9.8, 1.0]
    assert env.env_method("get_wrapper_attr", "gravity", indices=[1]) == [1.0]
    assert env.env_is_wrapped(Monitor) == [True, True]
    assert env.has_attr("gravity")
    assert not env.has_attr("levity")
    assert env.unwrapped is env
    env.close()


def test_envs_are_drawn_side_by_side(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = make_vec_env("CartPole-v1", n_envs=3)
    env.reset()
    height, width, _ = env.get_images()[0].shape
    assert env.render("rgb_array").shape == (2 * height, 2 * width, 3)
    assert env.render("human") is None
    env.close()
    with pytest.warns(UserWarning, match="render_mode='rgb_array'"):
        DummyVecEnv([lambda: gymnasium.make("CartPole-v1")]).render()


def test_an_env_that_cannot_draw_is_made_all_the_same():
    env = make_vec_env("tests.example_envs:Identity-v0", n_envs=2)
    assert env.render_mode is None
    assert env.reset().shape == (2,)


def test_processes_are_this_process_and_say_so():
    with pytest.warns(UserWarning, match="in this process"):
        env = make_vec_env("CartPole-v1", n_envs=2, vec_env_cls=SubprocVecEnv)
    assert env.reset().shape == (2, 4)


def test_mistakes_are_told():
    same = gymnasium.make("CartPole-v1")
    with pytest.raises(UserError, match="same env object"):
        DummyVecEnv([lambda: same, lambda: same])
    with pytest.raises(UserError, match="list of functions"):
        DummyVecEnv([same])
    with pytest.raises(UserError, match="need as many actions, got 1"):
        make_vec_env("CartPole-v1", n_envs=2).step([0])
    with pytest.raises(UserError, match="n_envs=0"):
        make_vec_env("CartPole-v1", n_envs=0)
    with pytest.raises(UserError, match="gave a str"):
        make_vec_env(lambda: "env")


def test_what_was_touched_is_no_longer_just_its_id():
    assert make_vec_env("CartPole-v1").settings.id == "CartPole-v1"
    assert make_vec_env("CartPole-v1", wrapper_class=gymnasium.wrappers.TimeAwareObservation).settings is None
    touched = make_vec_env("CartPole-v1")
    touched.set_attr("gravity", 1.0)
    assert touched.settings is None
    held = make_vec_env("CartPole-v1")
    assert len(held.envs) == 1
    assert held.settings is None


def test_monitor_writes_a_line_per_episode(tmp_path):
    env = make_vec_env(Variable, n_envs=1, seed=0, monitor_dir=str(tmp_path))
    lengths = [infos[0]["episode"]["l"] for _, _, dones, infos in play(env, 30, 0) if dones[0]]
    lines = (tmp_path / "0.monitor.csv").read_text().splitlines()
    assert lines[0].startswith('#{"t_start"')
    assert lines[1] == "r,l,t"
    assert [int(line.split(",")[1]) for line in lines[2:]] == lengths
    env.close()


class Always:
    """A model that always does the same."""

    def __init__(self, action):
        self.action = action

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return np.full(len(obs), self.action), state


def test_evaluation_shares_episodes_out_among_the_envs():
    seen = []
    env = make_vec_env(Variable, n_envs=2, seed=0)
    returns, lengths = evaluate_policy(
        Always(0), env, 5, return_episode_rewards=True, callback=lambda facts, _: seen.append(facts["i"])
    )
    assert len(returns) == 5
    assert returns == lengths  # one reward a step
    assert set(seen) == {0, 1}
    mean, std = evaluate_policy(Always(0), Variable(), n_eval_episodes=4)
    assert 3 <= mean <= 12
    assert std >= 0


def test_evaluation_reports_the_envs_own_reward():
    class Doubled(gymnasium.RewardWrapper):
        def reward(self, reward):
            return 2 * reward

    monitored = Doubled(Monitor(Variable()))
    returns, lengths = evaluate_policy(Always(0), monitored, 3, return_episode_rewards=True)
    assert returns == lengths
    with pytest.warns(UserWarning, match="put Monitor"):
        returns, lengths = evaluate_policy(Always(0), Doubled(Variable()), 3, return_episode_rewards=True)
    assert returns == [2 * length for length in lengths]


def test_a_threshold_that_is_missed_raises():
    with pytest.raises(AssertionError, match="below threshold"):
        evaluate_policy(Always(0), Variable(), 2, reward_threshold=1000)
    with pytest.raises(UserError, match="n_eval_episodes=0"):
        evaluate_policy(Always(0), Variable(), 0)
