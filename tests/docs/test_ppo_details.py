"""The page on PPO's details is complete, and the details that no other test shows are shown here."""

import re

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.docs.snippets import ROOT

from gymlab.algorithms.optimizers import Optimizer
from gymlab.algorithms.ppo import PPOAlgorithm, PPOSettings
from gymlab.core.types import Replayed, Rollout, Spaces
from gymlab.experience.advantages import Batch, gae_batch
from gymlab.networks.actor_critic import ActorCritic
from gymlab.networks.encoders import encode
from gymlab.networks.normalizer import Normalizer
from gymlab.networks.settings import PolicySettings

pytestmark = pytest.mark.fast

SPACES = Spaces(gym.spaces.Box(-1, 1, (6,), np.float32), gym.spaces.Box(-1, 1, (3,), np.float32), False, 10)


def network(**policy):
    return ActorCritic(jax.random.key(0), SPACES, PolicySettings(**policy))


def test_the_page_lists_every_detail_of_the_checklist():
    page = (ROOT / "docs/ppo-details.md").read_text(encoding="utf-8")
    counts = {"Core": 13, "Atari": 9, "Continuous actions": 9, "LSTM": 5, "MultiDiscrete": 1, "Auxiliary": 4}
    for title, count in counts.items():
        section = re.split(r"^## ", page.partition(f"## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
        rows = [row.split(" | ") for row in re.findall(r"^\| (\d.*) \|$", section, re.MULTILINE)]
        assert [int(row[0]) for row in rows] == list(range(1, count + 1)), title
        assert all(re.match(r"on|off|with|later", row[2]) for row in rows), title
        assert all("tests/" in row[4] or row[2].startswith("later") for row in rows), title


def test_weights_are_orthogonal_with_the_published_gains():
    net = network()
    layers = [*net.policy_trunk.layers, *net.value_trunk.layers, net.policy_head, net.value_head]
    for layer, gain in zip(layers, [2**0.5] * 4 + [0.01, 1.0], strict=True):
        weight = np.asarray(layer.weight)
        small = weight if weight.shape[0] <= weight.shape[1] else weight.T
        np.testing.assert_allclose(small @ small.T, gain**2 * np.eye(len(small)), atol=1e-5)
        assert not np.any(layer.bias)


def test_adam_is_the_default_with_the_published_epsilon():
    # The first step of Adam is rate * g / (|g| + eps): with g = eps it is half the rate.
    settings = PPOSettings()
    params = {"w": jnp.zeros(1)}
    optimizer = Optimizer(settings)
    state = optimizer.start_update(optimizer.init(params), params, jnp.float32(0.1))
    moved, _, _ = optimizer.step(state, params, {"w": jnp.full(1, 1e-5)}, jnp.float32(0.5))
    np.testing.assert_allclose(moved["w"], -0.05, rtol=1e-4)


def test_the_target_of_the_value_is_advantage_plus_value():
    net = network(hidden=(8,))
    obs = jax.random.normal(jax.random.key(1), (5, 2, 6))
    zeros, no = jnp.zeros((4, 2)), jnp.zeros((4, 2), bool)
    ones = jnp.ones((4, 2))
    rollout = Rollout(obs[:-1], jnp.zeros((4, 2, 3)), zeros, ones, ones, {}, no, no, no, obs[1:], obs[-1], (), {})
    batch = gae_batch(
        lambda steps: Replayed((), net.value(steps.obs)),
        lambda obs, *_: net.value(obs),
        (rollout,),
        jnp.float32(0.9),
        jnp.float32(0.8),
    )
    np.testing.assert_allclose(batch.target, batch.advantage + batch.value, rtol=1e-6)
    # The last step's advantage is r + gamma V(s') - V(s): its target is r + gamma V(s').
    np.testing.assert_allclose(batch.target[-2:], 1 + 0.9 * net.value(obs[-1]), rtol=1e-5)


def test_the_loss_is_the_weighted_sum_of_its_parts():
    ppo = PPOAlgorithm(PPOSettings(entropy_coef=0.3, value_coef=0.7), PolicySettings(hidden=(8,)), SPACES)
    params = ppo.network.init(jax.random.key(0))
    obs, action = jnp.ones((4, 6)), jnp.zeros((4, 3))
    batch = Batch(obs, action, jnp.zeros(4), jnp.zeros(4), jnp.arange(4.0), jnp.ones(4))
    hp = {name: jnp.float32(schedule.at(0)) for name, schedule in ppo.settings.schedules().items()}
    loss, parts = ppo.loss(params, batch, hp)
    expected = parts["opt/policy_loss"] - 0.3 * parts["opt/entropy"] + 0.7 * parts["opt/value_loss"]
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_policy_and_value_share_a_trunk_only_when_asked(shared):
    assert PolicySettings().hidden == (64, 64)
    assert PolicySettings().activation == "tanh"
    net = network(shared=shared)
    grads = jax.grad(lambda net: net.value(jnp.ones((1, 6))).sum(), allow_int=True)(net)
    assert bool(np.any(grads.policy_trunk.layers[0].weight)) == shared


def test_bytes_are_scaled_to_the_unit_interval():
    pixels = gym.spaces.Box(0, 255, (2, 2), np.uint8)
    np.testing.assert_allclose(encode(pixels, jnp.array([[[0, 51], [255, 102]]], jnp.uint8)), [[0, 0.2, 1, 0.4]])


def test_the_log_std_is_one_number_per_action_and_starts_at_zero():
    policy = network().distribution(jnp.linspace(-1, 1, 12).reshape(2, 6))
    np.testing.assert_array_equal(jnp.broadcast_to(policy.log_std, (2, 3)), 0)


def test_scaled_rewards_are_clipped():
    norm = Normalizer(SPACES.observation, obs=False, reward=True, clip=10)
    rewards = jnp.array([[5.0], [50.0], [-50.0]])
    obs, no = jnp.zeros((3, 1, 6)), jnp.zeros((3, 1), bool)
    rollout = Rollout(obs, rewards, rewards, rewards, rewards, {}, no, no, no, obs, obs[-1], (), {})
    np.testing.assert_allclose(
        norm.normalize_rollout(norm.init(), rollout).train_reward, [[5.0], [10.0], [-10.0]], rtol=1e-5
    )
