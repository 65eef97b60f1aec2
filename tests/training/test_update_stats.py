"""Every statistic of an update, on arrays small enough to work out by hand."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.algorithms.opt_metrics import (
    estimates,
    gradient_norms,
    norm_names,
    parts_of,
    scaled_losses,
    weighted_estimates,
)
from gymlab.core.types import Rollout, Spaces
from gymlab.networks.actor_critic import ActorCritic
from gymlab.networks.distributions import Bernoulli, Categorical, Gaussian, MultiCategorical
from gymlab.networks.settings import PolicySettings
from gymlab.training import episodes
from gymlab.training.update_histograms import BINS, SAMPLES, histograms, quantiles, sample_places, sample_values
from gymlab.training.update_stats import (
    action_components,
    action_samples,
    action_statistics,
    basic_metrics,
    count_actions,
    identical_observations,
    max_prob,
    observation_features,
    observation_statistics,
    reward_parts,
    reward_statistics,
    unit_activity,
    weight_norms,
    weight_samples,
)


def told(named):
    """Numbers by name."""
    return {name: float(value) for names, values in named for name, value in zip(names, values, strict=True)}


def rollout(reward, action=(), components=None, train_reward=None, ended=None):
    reward = jnp.asarray(reward, jnp.float32)
    learnt = reward if train_reward is None else jnp.asarray(train_reward, jnp.float32)
    parts = {name: jnp.asarray(part, jnp.float32) for name, part in (components or {}).items()}
    terminated, truncated = (jnp.zeros(reward.shape, bool),) * 2 if ended is None else map(jnp.asarray, ended)
    return Rollout((), jnp.asarray(action), None, reward, learnt, parts, terminated, truncated, *([None] * 5))


def test_rewards_by_hand():
    # Rewards 0 0 3 -1: mean 0.5, squares of the rest .25 .25 6.25 2.25, so a variance of 2.25. Learnt from: 0 0 2 2.
    ended = ([[True, False], [True, True]], [[False, False], [False, True]])
    given = rollout([[0, 0], [3, -1]], train_reward=[[0, 0], [2, 2]], ended=ended)
    found = reward_statistics(given, full=True)
    assert {name: float(value) for name, value in found.items()} == {
        "roll/reward_mean": 0.5, "roll/train_reward_mean": 1, "roll/reward_std": 1.5, "roll/train_reward_std": 1,
        "roll/reward_min": -1, "roll/reward_max": 3, "roll/reward_nonzero": 0.5,
        "roll/terminated": 3, "roll/truncated": 1,
    }  # fmt: skip
    few = reward_statistics(given, full=False)
    assert set(few) == {"roll/reward_mean", "roll/train_reward_mean", "roll/terminated", "roll/truncated"}
    assert all(few[name] == found[name] for name in few)


def test_actions_by_hand():
    found = action_statistics(gym.spaces.Discrete(2), rollout([[0, 0], [3, -1]], [[0, 1], [1, 1]]))
    assert found["roll/action_mean"] == 0.75
    np.testing.assert_allclose(found["roll/action_std"], np.sqrt(3 / 16), rtol=1e-6)
    assert "roll/action_clipped" not in found


def test_actions_are_counted_as_the_env_received_them():
    # -3 is cut to -1, so what was sent is -1, 0, 0.5, 0.5; one of four lay outside.
    space = gym.spaces.Box(-1, 1, (1,), np.float32)
    found = action_statistics(space, rollout([[0, 0], [0, 0]], [[[-3.0], [0.0]], [[0.5], [0.5]]]))
    assert found["roll/action_clipped"] == 0.25
    assert found["roll/action_mean"] == 0
    shifted = action_statistics(gym.spaces.Discrete(2, start=5), rollout([[0, 0]], [[0, 1]]))
    assert shifted["roll/action_mean"] == 5.5


def test_parts_of_the_reward_by_hand():
    parts = {"goal": [[0, 0], [3, -1]], "cost": [[-1, -1], [-1, -1]]}  # sizes 1 and 1: half each
    found = reward_parts(rollout([[0, 0], [3, -1]], components=parts))
    assert (found["env/reward_mean/goal"], found["env/reward_mean/cost"]) == (0.5, -1)
    assert (found["env/reward_share/goal"], found["env/reward_share/cost"]) == (0.5, 0.5)
    assert (found["env/reward_nonzero/goal"], found["env/reward_nonzero/cost"]) == (0.5, 1)
    assert reward_parts(rollout([[0]], components={"goal": [[0]]}))["env/reward_share/goal"] == 0
    assert reward_parts(rollout([[0]])) == {}


def test_gradient_norms_by_part_before_and_after_clipping():
    # Parts (3, 4) and 12: norms 5 and 12, together 13; clipped to 6.5 everything is halved.
    grads = {"policy_trunk.a": jnp.array([3.0]), "policy_trunk.b": jnp.array([4.0]), "value_head.w": jnp.array([12.0])}
    assert parts_of(grads) == {"policy_trunk": ["policy_trunk.a", "policy_trunk.b"], "value_head": ["value_head.w"]}
    found = zip(norm_names(grads), gradient_norms(grads, jnp.float32(6.5)), strict=True)
    assert {name: round(float(value), 4) for name, value in found} == {
        "opt/grad_norm": 13, "opt/grad_norm/policy_trunk": 5, "opt/grad_norm/value_head": 12,
        "opt/grad_norm_clipped": 6.5, "opt/grad_norm_clipped/policy_trunk": 2.5, "opt/grad_norm_clipped/value_head": 6,
    }  # fmt: skip
    loose = gradient_norms(grads, jnp.float32(100.0))
    assert loose[norm_names(grads).index("opt/grad_norm_clipped")] == 13


def test_scaled_losses_add_up_and_a_loss_of_ones_own_may_leave_some_out():
    metrics = {"opt/policy_loss": jnp.float32(1.0), "opt/value_loss": jnp.float32(4.0), "opt/entropy": jnp.float32(2.0)}
    found = scaled_losses(metrics, jnp.float32(0.5), jnp.float32(0.1))
    np.testing.assert_allclose([*found.values()], [1, 2, -0.2], rtol=1e-6)
    np.testing.assert_allclose(sum(found.values()), 1 + 0.5 * 4 - 0.1 * 2, rtol=1e-6)
    assert list(scaled_losses({"opt/entropy": jnp.float32(1)}, 0.5, jnp.float32(0))) == ["opt/loss/entropy_scaled"]


def test_advantages_and_targets_by_hand():
    # Targets 4 8 vary by 4 around 6; what the predictions 3 5 leave of them, 1 3, by 1: three quarters are explained.
    found = estimates(jnp.array([1.0, 3.0]), jnp.array([4.0, 8.0]), jnp.array([3.0, 5.0]))
    assert {name: float(value) for name, value in found.items()} == {
        "opt/advantage_mean": 2, "opt/advantage_std": 1, "opt/target_mean": 6, "opt/target_std": 2,
        "opt/explained_variance": 0.75,
    }  # fmt: skip
    assert estimates(jnp.ones(2), jnp.array([1.0, 2.0]), jnp.array([1.0, 2.0]))["opt/explained_variance"] == 1
    assert estimates(jnp.ones(2), jnp.array([1.0, 3.0]), jnp.zeros(2))["opt/explained_variance"] == 0
    assert np.isnan(estimates(jnp.ones(5), jnp.full(5, 2.0), jnp.arange(5.0))["opt/explained_variance"])


def test_advantages_and_targets_under_a_mask():
    found = weighted_estimates(jnp.array([1.0, 3.0, 100.0]), jnp.array([5.0, 5.0, 7.0]), jnp.array([1.0, 1.0, 0.0]))
    assert [float(value) for value in found.values()] == [2, 5, 1, 0]
    assert np.isnan(weighted_estimates(jnp.ones(2), jnp.ones(2), jnp.zeros(2))["opt/advantage_mean"])


def test_weights_and_what_changed_in_them():
    old = {"a.w": jnp.array([3.0, 4.0]), "b.w": jnp.array([1.0])}
    new = {"a.w": jnp.array([3.0, 4.0]), "b.w": jnp.array([12.0])}
    assert told(weight_norms(old, new)) == {
        "opt/param_norm": 13, "opt/param_norm/a": 5, "opt/param_norm/b": 12,
        "opt/update_norm": 11, "opt/update_norm/a": 0, "opt/update_norm/b": 11,
    }  # fmt: skip
    many = {"a.w": jnp.arange(4.0 * SAMPLES), "b.w": jnp.zeros(BINS - 1)}  # too few for a histogram
    found = weight_samples({"a.w": jnp.zeros(4 * SAMPLES), "b.w": many["b.w"]}, many)
    assert {name: len(values) for name, values in found.items()} == dict.fromkeys(
        ["opt/param_hist/a", "opt/update_hist/a"], SAMPLES
    )


def test_the_window_has_a_lowest_and_a_highest_episode():
    # Two episodes: return 3 in 2 steps, return 10 in 3.
    reward = jnp.array([[1.0, 2], [2, 4], [0, 4]])
    fresh = jnp.array([[0, 0], [1, 0], [0, 1]], bool)
    _, found = jax.jit(episodes.track)(episodes.start(2), reward, fresh)
    assert [float(found[f"roll/return_{word}"]) for word in ("min", "max", "mean", "std")] == [3, 10, 6.5, 3.5]
    assert [float(found[f"roll/length_{word}"]) for word in ("min", "max", "mean", "std")] == [2, 3, 2.5, 0.5]
    _, none = jax.jit(episodes.track)(episodes.start(2), reward, jnp.zeros((3, 2), bool))
    assert [np.isnan(none[f"roll/length_{word}"]) for word in ("min", "max", "mean", "std")] == [True] * 4


def test_histograms_by_hand():
    # 0..64 in 32 bins of width 2; the highest value belongs to the last bin. A constant is in the first one.
    low, high, *counts = np.asarray(histograms([jnp.arange(65.0), jnp.full(3, 7.0)]))[0]
    assert (low, high) == (0, 64)
    assert counts == [2] * 31 + [3]
    _, constant = np.asarray(histograms([jnp.arange(65.0), jnp.full(3, 7.0)]))
    np.testing.assert_array_equal(constant, [7, 7, 3, *[0] * 31])


def test_a_mask_leaves_out_what_is_not_there():
    found = np.asarray(histograms([jnp.array([1.0, 99.0, 3.0])], {0: jnp.array([True, False, True])}))[0]
    assert (found[0], found[1], found[2], found[-1], found[2:].sum()) == (1, 3, 1, 1, 2)
    assert np.asarray(histograms([jnp.ones(3)], {0: jnp.zeros(3, bool)}))[0, 2:].sum() == 0


def test_quantiles_are_those_of_numpy():
    one, two = np.random.default_rng(0).normal(size=50).astype(np.float32), np.array([3.0, 1, 2], np.float32)
    found = quantiles([jnp.asarray(one), jnp.asarray(two)])
    at = [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]
    np.testing.assert_allclose(found, [np.quantile(one, at), np.quantile(two, at)], rtol=1e-5, atol=1e-6)


def test_long_vectors_are_sampled_and_short_ones_taken_whole():
    assert sample_places(SAMPLES) is None
    places = sample_places(10 * SAMPLES)
    assert len(set(places.tolist())) == SAMPLES
    assert (np.diff(places) > 0).all()
    assert (sample_places(10 * SAMPLES) == places).all()
    # 4 features in turn: all of them are seen, which even spacing would not do.
    assert set((places % 4).tolist()) == {0, 1, 2, 3}
    assert sample_values(jnp.ones((2, 3))).shape == (6,)


def test_observations_by_feature_and_together():
    flat, names = observation_features(gym.spaces.Box(-9, 9, (2,)), jnp.array([[1.0, -2.0], [3.0, -4.0]]))
    found = told(observation_statistics(flat, names))
    assert found["env/obs_mean"] == -0.5
    np.testing.assert_allclose(found["env/obs_std"], np.std([1, -2, 3, -4]), rtol=1e-6)
    assert (found["env/obs_min"], found["env/obs_max"]) == (-4, 3)
    assert [found[f"env/obs_{word}/1"] for word in ("mean", "std", "min", "max")] == [-3, 1, -4, -2]


def test_nested_observations_name_their_features_as_bounds_do():
    space = gym.spaces.Dict({"a": gym.spaces.Box(0, 1, (2,)), "b": gym.spaces.Discrete(3)})
    flat, names = observation_features(space, {"a": jnp.ones((4, 2)), "b": jnp.array([0, 1, 2, 1])})
    assert names == ["a.0", "a.1", "b"]
    assert flat.shape == (4, 3)
    pixels, many = observation_features(gym.spaces.Box(0, 255, (10, 10), np.uint8), jnp.zeros((4, 10, 10), jnp.uint8))
    assert len(told(observation_statistics(pixels, many))) == 4  # too many features to tell one by one


def test_envs_that_do_the_same_are_found():
    one = {"x": jnp.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [4.0, 4.0]]), "y": jnp.array([0, 0, 0, 0])}
    assert told(identical_observations(one)) == {"env/identical": 0.5}
    assert identical_observations({"x": jnp.ones((1, 2))}) == []
    pictures = jnp.zeros((3, 60, 60), jnp.uint8).at[0, 59, 59].set(1)  # one pixel of 3600 differs
    np.testing.assert_allclose(told(identical_observations(pictures))["env/identical"], 2 / 3, rtol=1e-6)


def test_every_discrete_choice_is_counted():
    taken = count_actions(gym.spaces.Discrete(3, start=4), jnp.array([[0, 2], [2, 2]]))
    assert (taken.names, taken.bins) == (("roll/actions/hist",), (3,))
    np.testing.assert_array_equal(taken.bars, [3.5, 6.5, 1, 0, 3])
    assert told(taken.shares) == {"roll/action_share/0": 0.25, "roll/action_share/1": 0, "roll/action_share/2": 0.75}


@pytest.mark.parametrize(
    ("space", "shares"),
    [
        (gym.spaces.MultiDiscrete([2, 3]), {"0.0": 0.5, "0.1": 0.5, "1.0": 0.0, "1.1": 1.0, "1.2": 0.0}),
        (gym.spaces.MultiBinary(2), {"0.0": 0.5, "0.1": 0.5, "1.0": 0.0, "1.1": 1.0}),
    ],
)
def test_every_component_has_a_histogram_of_its_own(space, shares):
    action = jnp.array([[[0, 1], [1, 1]]])
    taken = count_actions(space, action)
    assert taken.names == ("roll/actions/hist/0", "roll/actions/hist/1")
    assert told(taken.shares) == {f"roll/action_share/{name}": share for name, share in shares.items()}
    means = told(action_components(space, action))
    assert (means["roll/action_mean/0"], means["roll/action_std/0"], means["roll/action_mean/1"]) == (0.5, 0.5, 1)


def test_continuous_actions_are_sampled_by_component():
    two = gym.spaces.Box(-1, 1, (2,), np.float32)
    assert count_actions(two, jnp.zeros((2, 2, 2))) is None
    assert list(action_samples(two, jnp.zeros((2, 2, 2)))) == ["roll/actions/hist/0", "roll/actions/hist/1"]
    assert list(action_samples(gym.spaces.Box(-1, 1, (1,)), jnp.zeros((2, 2, 1)))) == ["roll/actions/hist"]
    assert count_actions(gym.spaces.Discrete(5000), jnp.zeros((2, 2), int)) is None


def test_the_likeliest_action_of_every_kind_of_policy():
    half = jnp.log(jnp.array([[0.5, 0.5], [0.9, 0.1]]))
    np.testing.assert_allclose(max_prob(Categorical(half)), [0.5, 0.9], rtol=1e-6)
    np.testing.assert_allclose(max_prob(MultiCategorical((Categorical(half), Categorical(half)))), [0.25, 0.81], 1e-5)
    odds = jnp.log(jnp.array([[1.0, 3.0], [1 / 3, 1.0]]))  # probabilities .5 .75 and .25 .5
    np.testing.assert_allclose(max_prob(Bernoulli(odds)), [0.375, 0.375], rtol=1e-6)
    assert max_prob(Gaussian(jnp.zeros((2, 1)), jnp.zeros(1))) is None


def test_dead_and_saturated_units_by_hand():
    # Layer 0: unit 1 of 2 never fires. Layer 1: 3 of 4 units never do. Of all 6 units, 4 are dead.
    layers = {"policy_trunk.0": jnp.array([[1.0, 0], [0, 0]]), "policy_trunk.1": jnp.zeros((2, 4)).at[1, 2].set(0.1)}
    np.testing.assert_allclose([*told(unit_activity(layers, "relu")).values()], [4 / 6, 0.5, 0.75], rtol=1e-6)
    # tanh: 0.98 and -0.99 of four activations lie at the ends.
    found = told(unit_activity({"policy_trunk.0": jnp.array([[0.98, 0.1], [-0.99, 0.96]])}, "tanh"))
    assert found == {"opt/saturated_units": 0.5, "opt/saturated_units/policy_trunk.0": 0.5}
    assert unit_activity(layers, "gelu") == []
    pictures = {"policy_trunk.encoder.0": jnp.zeros((2, 5, 5, 3)).at[..., 0].set(1.0)}  # 2 of 3 channels are dead
    np.testing.assert_allclose(told(unit_activity(pictures, "tanh"))["opt/dead_units"], 2 / 3, rtol=1e-6)


def test_a_network_whose_layer_was_killed_shows_it():
    spaces = Spaces(gym.spaces.Box(-1, 1, (3,), np.float32), gym.spaces.Discrete(2), False, 10)
    network = ActorCritic(jax.random.key(0), spaces, PolicySettings(hidden=(8, 8), activation="relu"))
    obs = jax.random.normal(jax.random.key(1), (64, 3))
    alive = told(unit_activity(network.look(obs).layers, "relu"))
    killed = jax.tree_util.tree_map(lambda x: x, network)
    object.__setattr__(killed.policy_trunk.layers[0], "bias", jnp.full(8, -100.0))
    dead = told(unit_activity(killed.look(obs).layers, "relu"))
    assert alive["opt/dead_units/policy_trunk.0"] < 0.5
    assert dead["opt/dead_units/policy_trunk.0"] == 1
    assert dead["opt/dead_units/value_trunk.0"] == alive["opt/dead_units/value_trunk.0"]
    look, (distribution, values) = network.look(obs), network.both(obs)
    np.testing.assert_array_equal(look.values, values)
    np.testing.assert_array_equal(look.distribution.log_p, distribution.log_p)
    assert list(look.layers) == ["policy_trunk.0", "policy_trunk.1", "value_trunk.0", "value_trunk.1"]


def test_basic_leaves_out_the_details_and_nothing_of_the_users():
    names = ["opt/loss", "opt/grad_norm", "opt/grad_norm/policy_head", "opt/grad_norm_clipped", "opt/advantage_std"]
    assert list(basic_metrics(dict.fromkeys([*names, "opt/pull", "opt/loss/value_scaled"]))) == [
        "opt/loss", "opt/grad_norm", "opt/pull"
    ]  # fmt: skip
