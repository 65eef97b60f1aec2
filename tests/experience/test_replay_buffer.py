"""The replay buffer: what is kept, what is drawn, and what a fault leaves behind."""

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.types import Rollout, Spaces
from gymlab.experience.replay_buffer import append_rollout, drop_newest, empty_buffer, sample_sequences

pytestmark = pytest.mark.fast

CAPACITY, LENGTH, ENVS = 8, 2, 3
SPACES = Spaces(gym.spaces.Box(-1, 1, (1,), np.float32), gym.spaces.Discrete(2), False, 100)


def rollout(number):
    """Steps 2 * number and 2 * number + 1: the reward is the step, plus a tenth of the env."""
    steps = (LENGTH * number + jnp.arange(LENGTH))[:, None] + 0.1 * jnp.arange(ENVS)
    no = jnp.zeros((LENGTH, ENVS), bool)
    return Rollout(
        obs=steps[..., None],
        action=jnp.ones((LENGTH, ENVS), jnp.int32),
        log_prob=steps,
        reward=steps,
        train_reward=steps,
        components={"part": steps},
        terminated=no,
        truncated=no,
        fresh=no,
        successor=steps[..., None] + 1,
        last_obs=steps[-1][..., None] + 1,
        carry=(),
        extras={"age": steps},
    )


def filled(rollouts):
    buffer = empty_buffer(SPACES, {"age": jnp.zeros(ENVS)}, ENVS, CAPACITY)
    for number in range(rollouts):
        buffer = append_rollout(buffer, rollout(number))
    return buffer


def drawn(buffer, count=4, sequences=50, length=1):
    return sample_sequences(buffer, jax.random.key(0), count, sequences, length)


def steps_in(buffer):
    return set(np.floor(np.asarray(drawn(buffer).reward) + 1e-3).astype(int).ravel().tolist())


def test_the_last_steps_are_kept_and_all_of_them_are_drawn():
    assert steps_in(filled(2)) == {0, 1, 2, 3}
    assert steps_in(filled(6)) == set(range(4, 12))


@pytest.mark.parametrize("rollouts", [2, 4, 5, 7])
def test_no_sequence_crosses_the_write_head(rollouts):
    # Consecutive steps of one env: one across the head would jump from the newest step to the oldest.
    part = drawn(filled(rollouts), length=3)
    assert part.reward.shape == (4, 3, 50)
    np.testing.assert_allclose(np.diff(part.reward, axis=1), 1.0, atol=1e-5)


def test_a_sample_holds_everything_of_its_step():
    part = drawn(filled(7), length=2)
    np.testing.assert_allclose(part.obs[..., 0], part.reward)
    np.testing.assert_allclose(part.extras["age"], part.reward)
    np.testing.assert_allclose(part.successor[..., 0], part.reward + 1, atol=1e-5)
    np.testing.assert_allclose(part.last_obs, part.successor[:, -1])


def test_an_unsound_rollout_is_not_drawn_and_what_it_overwrote_neither():
    buffer = append_rollout(filled(4), rollout(99), jnp.bool_(False))
    assert steps_in(buffer) == set(range(2, 8))
    assert steps_in(append_rollout(buffer, rollout(4))) == set(range(2, 10))


def test_the_newest_rollout_can_be_dropped():
    assert steps_in(drop_newest(filled(5), LENGTH, jnp.bool_(True))) == set(range(2, 8))
    assert steps_in(drop_newest(filled(5), LENGTH, jnp.bool_(False))) == set(range(2, 10))
