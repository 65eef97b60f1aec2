"""Stable-Baselines3's arguments: every one is known, and what gymlab does differently is said by name."""

import inspect

import gymnasium
import jax
import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.core.schedules import parse_schedule
from gymlab.sb3 import A2C, PPO, REINFORCE, arguments
from gymlab.sb3.arguments import sampled

pytestmark = pytest.mark.fast

# The constructors of Stable-Baselines3 2.9: names in order, and defaults.
SB3_PPO = {
    "learning_rate": 3e-4, "n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95,
    "clip_range": 0.2, "clip_range_vf": None, "normalize_advantage": True, "ent_coef": 0.0, "vf_coef": 0.5,
    "max_grad_norm": 0.5, "use_sde": False, "sde_sample_freq": -1, "rollout_buffer_class": None,
    "rollout_buffer_kwargs": None, "target_kl": None, "stats_window_size": 100, "tensorboard_log": None,
    "policy_kwargs": None, "verbose": 0, "seed": None, "device": "auto", "_init_setup_model": True,
}  # fmt: skip
SB3_A2C = {
    "learning_rate": 7e-4, "n_steps": 5, "gamma": 0.99, "gae_lambda": 1.0, "ent_coef": 0.0, "vf_coef": 0.5,
    "max_grad_norm": 0.5, "rms_prop_eps": 1e-5, "use_rms_prop": True, "use_sde": False, "sde_sample_freq": -1,
    "rollout_buffer_class": None, "rollout_buffer_kwargs": None, "normalize_advantage": False,
    "stats_window_size": 100, "tensorboard_log": None, "policy_kwargs": None, "verbose": 0, "seed": None,
    "device": "auto", "_init_setup_model": True,
}  # fmt: skip


@pytest.mark.parametrize(("model", "theirs"), [(PPO, SB3_PPO), (A2C, SB3_A2C)])
def test_a_constructor_has_every_argument_of_sb3_in_its_place(model, theirs):
    ours = {name: p.default for name, p in inspect.signature(model).parameters.items()}
    names = list(ours)
    assert names[:2] == ["policy", "env"]
    assert names[2 : 2 + len(theirs)] == list(theirs)
    assert {name: ours[name] for name in theirs} == theirs


@pytest.mark.parametrize(
    ("method", "table"),
    [
        (PPO.learn, arguments.LEARN),
        (PPO.predict, arguments.PREDICT),
        (PPO.save, arguments.SAVE),
        (PPO.load, arguments.LOAD),
    ],
)
def test_a_methods_table_is_its_signature(method, table):
    found = [p for p in inspect.signature(method).parameters.values() if p.name != "self"]
    named = {f"**{p.name}" if p.kind is p.VAR_KEYWORD else p.name: p.default for p in found}
    assert named == {argument.name: argument.default for argument in table}


def settings(model):
    return model._recipe(objects=False).algorithm.settings


def test_defaults_are_those_of_sb3():
    ppo = settings(PPO("MlpPolicy", "CartPole-v1"))
    assert (ppo.learning_rate.start, ppo.batch_size, ppo.epochs, ppo.gae_lambda.start) == (3e-4, 64, 10, 0.95)
    assert (ppo.optimizer, ppo.optimizer_eps, ppo.value_clip, ppo.target_kl) == ("adam", 1e-5, None, None)
    a2c = A2C("MlpPolicy", "CartPole-v1")
    assert a2c._recipe(objects=False).n_steps == 5
    assert (settings(a2c).learning_rate.start, settings(a2c).gae_lambda.start) == (7e-4, 1.0)
    assert (settings(a2c).optimizer, settings(a2c).optimizer_eps) == ("rmsprop", 1e-5)
    assert settings(A2C("MlpPolicy", "CartPole-v1", use_rms_prop=False)).optimizer == "adam"
    assert settings(PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"optimizer_class": "AdamW"})).optimizer == "adamw"


def test_reinforce_collects_one_time_limit_by_default():
    model = REINFORCE("MlpPolicy", "CartPole-v1", baseline="running_mean")
    assert model._recipe(objects=False).n_steps == 500
    assert settings(model).baseline == "running_mean"


def test_every_number_reaches_the_recipe():
    model = PPO(
        "MlpPolicy", "Pendulum-v1", 1e-3, 128, 32, 3, 0.9, 0.8, 0.1, 0.3, False, 0.01, 0.7, 0.4, True, 8,
        target_kl=0.02, n_envs=2, normalize={"obs": True},
        policy_kwargs={"net_arch": {"pi": [8], "vf": [16]}, "ortho_init": False, "log_std_init": -2.0,
                       "optimizer_class": "SGD", "optimizer_kwargs": {"eps": 1e-3}},
    )  # fmt: skip
    recipe = model._recipe(objects=False)
    ppo = recipe.algorithm.settings
    assert (recipe.n_envs, recipe.n_steps, recipe.normalize.obs, recipe.normalize.reward) == (2, 128, True, False)
    assert (ppo.learning_rate.start, ppo.batch_size, ppo.epochs, ppo.gamma.start) == (1e-3, 32, 3, 0.9)
    assert (ppo.gae_lambda.start, ppo.clip_range.start, ppo.value_clip.start) == (0.8, 0.1, 0.3)
    assert (ppo.normalize_advantage, ppo.entropy_coef.start, ppo.value_coef.start) == (False, 0.01, 0.7)
    assert (ppo.max_grad_norm.start, ppo.optimizer, ppo.optimizer_eps) == (0.4, "sgd", 1e-3)
    assert ppo.target_kl.start == pytest.approx(0.03)  # SB3 stops at 1.5 times target_kl
    policy = recipe.policy
    assert (policy.hidden, policy.value_hidden, policy.ortho_init, policy.log_std_init) == ((8,), (16,), False, -2.0)
    assert (policy.exploration, policy.gsde_every) == ("gsde", 8)


class LeakyReLU:
    """Named like torch's."""


@pytest.mark.parametrize(
    ("given", "ours"), [("relu", "relu"), (jax.nn.relu, "relu"), (np.tanh, "tanh"), (LeakyReLU, "leaky_relu")]
)
def test_an_activation_goes_by_its_name(given, ours):
    model = PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"activation_fn": given})
    assert model._recipe(objects=False).policy.activation == ours


@pytest.mark.parametrize("arch", [[16, 16], {"pi": [16, 16], "vf": [16, 16]}, [{"pi": [16, 16], "vf": [16, 16]}]])
def test_a_network_is_written_in_any_of_three_ways(arch):
    model = PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": arch})
    policy = model._recipe(objects=False).policy
    assert (policy.hidden, policy.value_hidden, policy.shared) == ((16, 16), None, False)


@pytest.mark.parametrize(
    "function",
    [lambda left: 3e-4 * left, lambda left: 1e-3 if left > 0.5 else 1e-4, lambda left: 1e-3 * left**3, lambda _: 0.1],
)
def test_a_function_becomes_a_schedule_with_the_same_values(function):
    schedule = parse_schedule(sampled(function))
    for progress in np.arange(0, 1001) / 1000:
        assert schedule.at(progress) == pytest.approx(function(1 - progress), rel=1e-3, abs=1e-9)


def test_a_straight_line_needs_two_points():
    assert sampled(lambda left: 3e-4 * left) == [[0.0, 3e-4], [1.0, 0.0]]


def test_gymlabs_own_schedules_are_taken():
    model = PPO("MlpPolicy", "CartPole-v1", learning_rate="lin_3e-4", clip_range=[[0, 0.2], [1, 0.1]])
    assert settings(model).learning_rate.at(0.5) == pytest.approx(1.5e-4)
    assert settings(model).clip_range.at(0.5) == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"batch_size": 100}, "batch_size=100 does not divide the rollout of 2048 steps .*try 64 or 128"),
        ({"n_step": 64}, "PPO has no argument 'n_step': did you mean 'n_steps'"),
        ({"n_epochs": 0}, "PPO: n_epochs: .*greater than or equal to 1, got 0"),
        ({"gamma": 1.5}, "PPO: gamma: must stay within 0 and 1, got 1.5"),
        ({"learning_rate": "fast"}, "PPO: learning_rate: 'fast' is neither a number nor a schedule"),
        ({"rollout_buffer_class": dict}, "rollout_buffer_class=.* is not supported: a rollout is one block"),
        ({"device": "mps"}, "device 'mps' is not supported"),
        ({"engine": "jaxx"}, "engine='jaxx': did you mean 'jax'"),
        ({"normalize": {"ob": True}}, "PPO: normalize ob: Extra inputs"),
        ({"policy_kwargs": {"net_arch": [64, {"pi": [64]}]}}, "layers shared before a split"),
        ({"policy_kwargs": {"net_arch": [0]}}, "PPO: policy_kwargs net_arch: "),
        ({"policy_kwargs": {"activation_fn": "rellu"}}, "activation_fn 'rellu' is not known: did you mean 'relu'"),
        ({"policy_kwargs": {"features_extractor_class": dict}}, "give an encoder of your own in a recipe"),
        ({"policy_kwargs": {"net_arhc": [64]}}, "policy_kwargs has no argument 'net_arhc': did you mean 'net_arch'"),
        ({"policy_kwargs": {"optimizer_kwargs": {"weight_decay": 1}}}, "only 'eps' is"),
    ],
)
def test_what_is_wrong_is_said_under_the_users_own_name(given, told):
    with pytest.raises(UserError, match=told):
        PPO("MlpPolicy", "CartPole-v1", **given)


@pytest.mark.parametrize(
    ("policy", "told"),
    [("MlpPolicyy", "did you mean 'MlpPolicy'"), (dict, "policy 'dict'")],
)
def test_other_policies_are_refused_with_a_way_out(policy, told):
    with pytest.raises(UserError, match=told):
        PPO(policy, "CartPole-v1")


@pytest.mark.parametrize("given", [{"tensorboard_log": "logs"}, {"stats_window_size": 10}])
def test_an_argument_without_effect_warns(given):
    with pytest.warns(UserWarning, match=f"{next(iter(given))} has no effect"):
        PPO("MlpPolicy", "CartPole-v1", **given)


def test_n_envs_goes_with_an_id_only():
    with pytest.raises(UserError, match="n_envs=2 goes with an env id"):
        PPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_envs=2)


def test_a_foreign_object_is_no_env():
    with pytest.raises(UserError, match="got SyncVectorEnv: see make_vec_env"):
        PPO("MlpPolicy", gymnasium.make_vec("CartPole-v1", 2, "sync"))


def test_an_unknown_env_is_named():
    with pytest.raises(UserError, match="did you mean 'CartPole-v1'"):
        PPO("MlpPolicy", "CartPole-v9")


def test_names_that_only_sb3_has_say_what_to_use():
    import gymlab.sb3

    with pytest.raises(UserError, match="normalize=dict"):
        gymlab.sb3.VecNormalize  # noqa: B018
    with pytest.raises(UserError, match="PPO, A2C and REINFORCE"):
        from gymlab.sb3 import DQN  # noqa: F401
    with pytest.raises(AttributeError):
        gymlab.sb3.Nonsense  # noqa: B018
