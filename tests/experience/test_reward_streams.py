"""Two reward streams side by side, worked out by hand across the end of an episode."""

import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.types import Rollout
from gymlab.experience.advantages import StateValues, gae
from gymlab.experience.reward_streams import RewardStream, intrinsic_metrics, joined_advantages, stream_gae

pytestmark = pytest.mark.fast


def column(*values):
    return jnp.array(values, jnp.float32)[:, None]


def rollout(terminated):
    flags = jnp.array(terminated, bool)[:, None]
    fields = dict.fromkeys(Rollout._fields, ())
    return Rollout(**fields | {"terminated": flags, "truncated": jnp.zeros_like(flags), "fresh": flags})


def both(first, second):
    return jnp.stack([first, second], -1)


ZEROS = column(0, 0, 0)


def test_each_stream_has_its_own_discount():
    # Values 0, lambda 1: advantages are discounted sums. Rewards 1, 1, 1 with gamma 0.5: 1.75, 1.5, 1;
    # bonuses 4, 4, 4 with gamma 0.25: 4 + 1 + 0.25, 4 + 1, 4.
    zeros = StateValues(*[both(ZEROS, ZEROS)] * 3)
    streams = (RewardStream(0.5, 1.0), RewardStream(0.25, 1.0, coefficient=2.0))
    got = stream_gae(both(column(1, 1, 1), column(4, 4, 4)), zeros, rollout([0, 0, 0]), streams)
    np.testing.assert_allclose(got[:, 0], [[1.75, 5.25], [1.5, 5.0], [1.0, 4.0]])
    np.testing.assert_allclose(joined_advantages(got, streams)[:, 0], [12.25, 11.5, 9.0])


def test_a_bonus_goes_on_into_the_next_episode():
    # The second step terminates. Extrinsic (gamma 0.5, lambda 0.5, rewards 1, values 2): step 1 has
    # delta 1 - 2 = -1 and nothing after; step 0 has 1 + 0.5 * 2 - 2 = 0, plus 0.25 * -1.
    # The bonus (gamma 0.5, lambda 0.5, bonuses 1, values 2) is valued at the next episode's first state, 6, not at
    # the terminal one, 100: step 1 has 1 + 0.5 * 6 - 2 = 2, plus 0.25 * step 2, which has 1 + 0.5 * 2 - 2 = 0.
    # Step 0 has 0 + 0.25 * 2.
    twos = column(2, 2, 2)
    values = StateValues(both(twos, twos), both(twos, column(2, 100, 2)), both(twos, column(2, 6, 2)))
    streams = (RewardStream(0.5, 0.5), RewardStream(0.5, 0.5, episodic=False))
    ones = column(1, 1, 1)
    got = stream_gae(both(ones, ones), values, rollout([0, 1, 0]), streams)
    np.testing.assert_allclose(got[:, 0], [[-0.25, 0.5], [-1.0, 2.0], [0.0, 0.0]])


def test_one_episodic_stream_is_plain_gae():
    rewards = column(1, 2, 3)
    values = column(2, 1, 4)
    ends = rollout([0, 1, 0])
    stacked = StateValues(values[..., None], values[..., None], values[..., None])
    got = stream_gae(rewards[..., None], stacked, ends, (RewardStream(0.9, 0.8),))
    plain = gae(rewards, values, values, ends.terminated, ends.truncated, gamma=0.9, lam=0.8)
    np.testing.assert_allclose(got[..., 0], plain, rtol=1e-6)


def test_a_bonus_is_reported_apart():
    assert intrinsic_metrics(column(1, 3)).keys() == {"intrinsic/reward_mean", "intrinsic/reward_std"}
