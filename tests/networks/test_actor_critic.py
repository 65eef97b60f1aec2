"""Networks over every supported pair of spaces."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.core.types import Masked, Spaces
from gymlab.experience.space_arrays import zero_action, zero_obs
from gymlab.networks.actor_critic import ACTIVATIONS, ActorCritic
from gymlab.networks.distributions import to_env_action
from gymlab.networks.encoders import encode, feature_count
from gymlab.networks.flat_network import FlatNetwork
from gymlab.networks.init import orthogonal
from gymlab.networks.settings import Activation, PolicySettings

S = gym.spaces
OBSERVATIONS = {
    "box": S.Box(-1, 1, (3,), np.float32),
    "image": S.Box(0, 255, (4, 4, 3), np.uint8),
    "discrete": S.Discrete(5, start=2),
    "multidiscrete": S.MultiDiscrete([2, 3]),
    "multibinary": S.MultiBinary(4),
    "dict": S.Dict(a=S.Box(-1, 1, (2, 2), np.float64), b=S.Discrete(3), c=S.Tuple([S.MultiBinary(2), S.Discrete(2)])),
}
ACTIONS = {
    "discrete": S.Discrete(3, start=-1),
    "multidiscrete": S.MultiDiscrete([2, 3]),
    "multibinary": S.MultiBinary(4),
    "box": S.Box(-2, 2, (2, 2), np.float32),
}


def network(observation, action, masked=False, **settings):
    spaces = Spaces(observation, action, masked, 10)
    policy = PolicySettings(**{"hidden": (8,), **settings})
    flat = FlatNetwork(lambda key: ActorCritic(key, spaces, policy))
    return spaces, flat(jax.jit(flat.init)(jax.random.key(0)))


def batch_of(space, n):
    def stack(*parts):
        return np.stack([np.asarray(p) for p in parts])

    samples = [space.sample() for _ in range(n)]
    if isinstance(space, S.Dict):
        return {name: batch_of(part, n) for name, part in space.spaces.items()}
    if isinstance(space, S.Tuple):
        return tuple(batch_of(part, n) for part in space.spaces)
    return stack(*samples)


PAIRS = [(name, "discrete") for name in OBSERVATIONS] + [("box", name) for name in ACTIONS if name != "discrete"]


@pytest.mark.parametrize(("observation", "action"), PAIRS)
def test_every_space_acts_within_its_action_space(observation, action):
    spaces, net = network(OBSERVATIONS[observation], ACTIONS[action])
    act = jax.jit(lambda o, k: net.act(o, (), k, False))
    for n in (1, 5):
        check_batch(spaces, net, act, n)


def check_batch(spaces, net, act, n):
    obs = batch_of(spaces.observation, n)
    decision = act(obs, jax.random.key(1))
    assert decision.log_prob.shape == (n,)
    assert net.value(obs).shape == (n,)
    assert decision.action.shape == zero_action(spaces.action, (n,)).shape
    assert decision.action.dtype == zero_action(spaces.action, (n,)).dtype
    sent = to_env_action(spaces.action, np.asarray(decision.action))
    for row in sent:
        assert spaces.action.contains(np.asarray(row, spaces.action.dtype) if np.ndim(row) else row)


def test_greedy_and_sampled_rows_can_stand_side_by_side():
    # Four envs and four action numbers: a mask that broadcast over the wrong axis would go unnoticed elsewhere.
    spaces, net = network(OBSERVATIONS["box"], ACTIONS["box"], log_std_init=1.0)
    obs = batch_of(spaces.observation, 4)
    greedy = np.array([True, True, False, False])
    mixed = net.act(obs, (), jax.random.key(1), greedy).action
    mode, sample = net.act(obs, (), jax.random.key(1), True).action, net.act(obs, (), jax.random.key(1), False).action
    np.testing.assert_array_equal(mixed[:2], mode[:2])
    np.testing.assert_array_equal(mixed[2:], sample[2:])
    assert not np.array_equal(mode, sample)


def test_encoding_by_hand():
    space = S.Dict(a=S.Discrete(3, start=1), b=S.Box(0, 255, (2,), np.uint8), c=S.MultiDiscrete([2, 2]))
    got = encode(space, {"a": jnp.array([3]), "b": jnp.array([[255, 51]], jnp.uint8), "c": jnp.array([[1, 0]])})
    np.testing.assert_allclose(got, [[0, 0, 1, 1, 0.2, 0, 1, 1, 0]], rtol=1e-6)
    assert feature_count(space) == 9


def test_the_first_policy_is_near_uniform_for_every_discrete_space():
    rng = np.random.default_rng(0)
    for name, most in (("discrete", np.log(3)), ("multidiscrete", np.log(6)), ("multibinary", 4 * np.log(2))):
        for ortho in (True, False):
            _, net = network(OBSERVATIONS["box"], ACTIONS[name], ortho_init=ortho, hidden=(64, 64))
            entropy = net.distribution(rng.normal(size=(64, 3)).astype(np.float32)).entropy()
            assert float(entropy.min()) > 0.99 * most


def test_the_first_gaussian_policy_is_centred_with_the_spread_asked_for():
    _, net = network(OBSERVATIONS["box"], ACTIONS["box"], log_std_init=-1.0)
    policy = net.distribution(np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32))
    assert float(abs(policy.mean).max()) < 0.1
    np.testing.assert_allclose(policy.log_std, -1.0)


def test_a_shared_trunk_gives_the_same_from_both_and_apart():
    for shared in (True, False):
        spaces, net = network(OBSERVATIONS["box"], ACTIONS["discrete"], shared=shared)
        obs = batch_of(spaces.observation, 3)
        policy, value = net.both(obs)
        np.testing.assert_allclose(value, net.value(obs), rtol=1e-6)
        np.testing.assert_allclose(policy.log_p, net.distribution(obs).log_p, rtol=1e-6)


def test_a_layers_weights_do_not_depend_on_how_deep_the_other_trunk_is():
    # Keys of both trunks are made at once; other keys would give every recipe another first policy.
    _, net = network(OBSERVATIONS["box"], ACTIONS["discrete"], hidden=(8,), value_hidden=(8, 8, 8))
    k_policy, k_value, *_ = jax.random.split(jax.random.key(0), 4)
    for trunk, key, depth in ((net.policy_trunk, k_policy, 1), (net.value_trunk, k_value, 3)):
        last = jax.random.split(jax.random.split(key)[1], depth)[-1]
        weight = trunk.layers[-1].weight
        np.testing.assert_allclose(weight, orthogonal(last, weight.shape, np.sqrt(2)), atol=1e-6)


def test_masks_reach_the_distribution():
    spaces, net = network(OBSERVATIONS["box"], S.Discrete(3), masked=True)
    obs = Masked(batch_of(spaces.observation, 200), np.tile([False, True, False], (200, 1)))
    decision = net.act(obs, (), jax.random.key(0), False)
    assert (decision.action == 1).all()
    np.testing.assert_allclose(decision.log_prob, 0.0, atol=1e-6)
    assert zero_obs(spaces, (7, 2)).mask.shape == (7, 2, 3)


def test_gsde_holds_its_noise_and_scores_it_by_its_true_spread():
    _, net = network(OBSERVATIONS["box"], S.Box(-1, 1, (2,), np.float32), exploration="gsde", gsde_every=3)
    obs = np.tile(np.float32([0.3, -0.2, 0.9]), (4000, 1))
    carry, actions = net.initial_carry(4000), []
    step = jax.jit(lambda c, k: net.act(obs, c, k, False))
    for t in range(4):
        decision = step(carry, jax.random.key(t))
        carry = decision.carry
        actions.append(np.asarray(decision.action))
    np.testing.assert_array_equal(actions[0], actions[2])
    assert not np.array_equal(actions[2], actions[3])
    policy = net.distribution(obs[:1])
    np.testing.assert_allclose(actions[0].std(0), np.exp(policy.log_std[0]), rtol=0.05)


def test_unsupported_spaces_say_what_is_supported():
    with pytest.raises(UserError, match="Text is not supported: use Box"):
        feature_count(S.Text(5))
    with pytest.raises(UserError, match="action space Dict is not supported"):
        network(OBSERVATIONS["box"], S.Dict(a=S.Discrete(2)))


def test_every_activation_of_the_settings_exists():
    assert set(ACTIVATIONS) == set(Activation.__args__)
    for name in ACTIVATIONS:
        _, net = network(OBSERVATIONS["box"], ACTIONS["discrete"], activation=name)
        assert np.isfinite(net.value(np.ones((2, 3), np.float32))).all()
