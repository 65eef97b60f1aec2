"""Training and evaluation see the same env, but for what a recipe declares."""

from __future__ import annotations

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.errors import RunError
from gymlab.core.types import Decision
from gymlab.envs.engines.gymnasium import GymnasiumEngine
from gymlab.envs.engines.jax import JaxEngine
from gymlab.envs.make import split_wrappers
from gymlab.envs.ports.registry import PORTS, find_port
from gymlab.envs.settings import EnvSettings
from gymlab.envs.transform import transformed
from gymlab.envs.wrapper_stacks import (
    check_alike,
    evaluation_settings,
    keeps_returns,
    leaves_bounds,
    wrapper_stacks,
)
from gymlab.training.evaluation import Evaluator

pytestmark = pytest.mark.fast

NOISY = ({"sticky_actions": 0.1}, {"observation_noise": 0.1}, {"frame_stack": 2}, {"action_noise": {"amount": 0.2}})


class Louder(gymnasium.ActionWrapper):
    training_only = True

    def action(self, action):
        return action


def settings(*wrappers, id="CartPole-v1"):
    return EnvSettings(id=id, wrappers=wrappers)


def test_evaluation_leaves_out_noise_and_nothing_else():
    stacks = wrapper_stacks(settings(*NOISY))
    assert stacks.training == [
        "CartPoleEnv (CartPole-v1)",
        "OrderEnforcing(disable_render_order_enforcing=False)",
        "TimeLimit(max_episode_steps=500)",
        "StickyActions(probability=0.1)",
        "observation_noise(std=0.1)",
        "frame_stack(k=2)",
        "action_noise(amount=0.2)",
    ]
    assert [line for line in stacks.training if line not in stacks.evaluation] == stacks.left_out
    assert stacks.notes == ["evaluation leaves out observation_noise(std=0.1), action_noise(amount=0.2)"]
    assert [part.name for part in evaluation_settings(settings(*NOISY)).wrappers] == ["sticky_actions", "frame_stack"]


def test_noise_stays_where_it_is_asked_for():
    asked = settings({"observation_noise": {"std": 0.1, "in_evaluation": True}})
    assert evaluation_settings(asked) is asked
    assert wrapper_stacks(asked).notes == []


def test_a_note_says_where_wrappers_run_in_another_order_than_written():
    [note] = wrapper_stacks(settings({"time_penalty": 1}, {"frame_skip": 4}, "time_aware", "sticky_actions")).notes
    assert note == (
        "env.wrappers run in another order than written, innermost first: frame_skip, sticky_actions, time_penalty, "
        "time_aware: gymnasium wrappers (frame_skip, sticky_actions) go around each env, inside transforms "
        "(time_penalty, time_aware), which act on the steps of all envs"
    )
    assert wrapper_stacks(settings({"frame_skip": 4}, "sticky_actions", {"time_penalty": 1})).notes == []


def test_what_goes_around_an_env_may_be_for_training_only_too():
    stacks = wrapper_stacks(settings(f"{__name__}:Louder", {"frame_skip": 2}))
    assert stacks.left_out == [f"{__name__}:Louder()"]
    assert stacks.evaluation == [line for line in stacks.training if line != "Louder"]


@pytest.mark.parametrize("env_id", PORTS)
def test_every_port_shows_the_spaces_of_its_evaluation_env(env_id):
    engine = JaxEngine(find_port(env_id, {}, None), 2)
    check_alike(wrapper_stacks(settings(id=env_id)), settings(id=env_id), engine.spaces, engine.spaces)


def test_other_spaces_than_those_trained_on_stop_the_start():
    plain = settings({"frame_stack": 2})
    engine = JaxEngine(find_port("CartPole-v1", {}, None), 2)
    seen = transformed(engine.spaces, split_wrappers(plain)[1])
    check_alike(wrapper_stacks(plain), plain, engine.spaces, seen)
    with pytest.raises(RunError, match=r"see different envs: action is Discrete\(3\) against Discrete\(2\)"):
        check_alike(wrapper_stacks(plain), plain, engine.spaces, seen._replace(action=spaces.Discrete(3)))


def score(*wrappers):
    """The mean return of a policy that pushes the way the pole leans, as the evaluator of a run sees it."""
    shown = evaluation_settings(settings(*wrappers))
    seen = []

    def act(policy, obs, carry, key, greedy):
        seen.append(obs.shape)
        action = (obs[:, 2] + 0.3 * obs[:, 3] > 0).astype(jnp.int32)
        return Decision(action, jnp.zeros(len(obs)), carry, {})

    evaluator = Evaluator(
        lambda n, seed: GymnasiumEngine(shown, n, seed, evaluation=True), split_wrappers(shown)[1], act, lambda n: ()
    )
    return evaluator.evaluate({}, episodes=4, seed=0, max_envs=4).greedy.mean


def test_the_reported_return_is_without_noise_and_without_shaping():
    plain = score()
    assert plain > 100
    assert score({"observation_noise": 9.0}, "cartpole_centring", {"time_penalty": 0.5}, {"scale_reward": 0.1}) == plain
    noisy = score({"observation_noise": {"std": 9.0, "in_evaluation": True}})
    assert noisy < plain / 2
    assert np.isfinite(noisy)


class Bonus(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward + 0.1


class Quiet(Bonus):
    keeps_returns = True


def test_wrappers_say_whether_what_is_known_of_the_env_still_holds():
    assert keeps_returns(settings(*NOISY))
    assert leaves_bounds(settings(*NOISY))
    assert not leaves_bounds(settings("time_aware", "frame_stack"))
    assert not keeps_returns(settings("time_aware", f"{__name__}:Bonus"))  # it may pay what it likes
    assert keeps_returns(settings(f"{__name__}:Quiet"))
    other_physics = settings({"randomize": {"gravity": [9, 11]}})
    assert leaves_bounds(other_physics)
    assert not keeps_returns(other_physics)
