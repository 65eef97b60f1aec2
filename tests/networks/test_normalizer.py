import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.types import Masked, Rollout
from gymlab.networks.normalizer import Normalizer, initial_moments, merge_moments

pytestmark = pytest.mark.fast

BOX = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)


def rollout(obs, reward, fresh):
    zeros = jnp.zeros_like(jnp.asarray(reward))
    return Rollout(obs, zeros, zeros, reward, reward, {}, fresh, fresh, fresh, obs, obs, (), {})


def test_merging_batches_gives_the_moments_of_all_of_them():
    rng = np.random.default_rng(0)
    batches = [rng.normal(3, 2, (n, 4, 3)).astype(np.float32) for n in (2, 5, 9)]
    moments = initial_moments((3,))
    for batch in batches:
        moments = merge_moments(moments, jnp.asarray(batch))
    everything = np.concatenate(batches).reshape(-1, 3)
    np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-5)
    np.testing.assert_allclose(moments.var, everything.var(0), rtol=1e-5)
    assert moments.count == len(everything)


def test_it_starts_as_the_identity_with_the_clip_on():
    norm = Normalizer(BOX, obs=True, reward=False, clip=10)
    got = norm.observe(norm.init(), jnp.array([[1.0, -50.0, 3.0]]))
    np.testing.assert_allclose(got, [[1.0, -10.0, 3.0]], rtol=1e-6)


def test_only_float_boxes_of_a_dict_are_normalised_and_masks_pass():
    space = gym.spaces.Dict(a=BOX, b=gym.spaces.Discrete(4), c=gym.spaces.Box(0, 255, (2,), np.uint8))
    norm = Normalizer(space, obs=True, reward=False, clip=10)
    obs = {"a": jnp.ones((5, 2, 3)), "b": jnp.ones((5, 2), int), "c": jnp.ones((5, 2, 2), jnp.uint8)}
    moved, _ = norm.learn(norm.init(), rollout(Masked(obs, None), jnp.zeros((5, 2)), jnp.zeros((5, 2), bool)), 0.0, 0.9)
    seen = norm.observe(moved, obs)
    np.testing.assert_allclose(seen["a"], 0.0, atol=1e-6)
    assert seen["b"].dtype == obs["b"].dtype
    assert (seen["c"] == 1).all()


def test_rewards_are_divided_by_the_spread_of_the_discounted_return():
    # gamma 0.5, rewards 1 1 | 1 with an end after step 1: sums 1, 1.5, 1; var of (1, 1.5, 1) = 1/18.
    norm = Normalizer(BOX, obs=False, reward=True, clip=10)
    reward = jnp.ones((3, 1))
    fresh = jnp.array([[False], [True], [False]])
    roll = rollout(jnp.zeros((3, 1, 3)), reward, fresh)
    np.testing.assert_allclose(norm.normalize_rollout(norm.init(), roll).train_reward, 1.0, rtol=1e-6)
    moved, discounted = norm.learn(norm.init(), roll, jnp.zeros(1), jnp.float32(0.5))
    np.testing.assert_allclose(moved.reward.var, 1 / 18, rtol=1e-5)
    np.testing.assert_allclose(discounted, [1.0])
    np.testing.assert_allclose(norm.normalize_rollout(moved, roll).train_reward, np.sqrt(18), rtol=1e-4)
    assert (norm.normalize_rollout(moved, roll).reward == 1).all()
