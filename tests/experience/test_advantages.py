import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.experience.advantages import gae, monte_carlo

pytestmark = pytest.mark.fast


def column(*values):
    return jnp.array(values, jnp.float32)[:, None]


def flags(*values):
    return jnp.array(values, bool)[:, None]


NO = flags(0, 0, 0)


def test_gae_of_an_open_rollout():
    # gamma 0.5, lambda 0.5, rewards 1, values 2, next values 2: every delta is 1 + 0.5 * 2 - 2 = 0.
    # With rewards 1, 2, 3 the deltas are 0, 1, 2, so
    # A2 = 2, A1 = 1 + 0.25 * 2 = 1.5, A0 = 0 + 0.25 * 1.5 = 0.375.
    twos = column(2, 2, 2)
    got = gae(column(1, 2, 3), twos, twos, NO, NO, gamma=0.5, lam=0.5)
    np.testing.assert_allclose(got[:, 0], [0.375, 1.5, 2.0])


def test_termination_neither_bootstraps_nor_carries():
    # The middle step terminates: delta1 = 2 - 2 = 0 (no 0.5 * 2), and step 2 must not reach back.
    # A2 = 3 + 1 - 2 = 2, A1 = 0, A0 = (1 + 1 - 2) + 0.25 * 0 = 0.
    twos = column(2, 2, 2)
    got = gae(column(1, 2, 3), twos, twos, flags(0, 1, 0), NO, gamma=0.5, lam=0.5)
    np.testing.assert_allclose(got[:, 0], [0.0, 0.0, 2.0])


def test_truncation_bootstraps_but_does_not_carry():
    # The same with a truncation and V(successor) = 10: delta1 = 2 + 0.5 * 10 - 2 = 5, nothing comes from step 2.
    # A1 = 5, A0 = 0 + 0.25 * 5 = 1.25.
    got = gae(column(1, 2, 3), column(2, 2, 2), column(2, 10, 2), NO, flags(0, 1, 0), gamma=0.5, lam=0.5)
    np.testing.assert_allclose(got[:, 0], [1.25, 5.0, 2.0])


def test_lambda_one_is_the_discounted_return_minus_the_value():
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(6, 2)), rng.normal(size=(7, 2))
    no = np.zeros((6, 2), bool)
    got = gae(*map(jnp.asarray, (rewards, values[:-1], values[1:], no, no)), gamma=0.9, lam=1.0)
    returns = np.zeros((7, 2))
    returns[6] = values[6]
    for t in reversed(range(6)):
        returns[t] = rewards[t] + 0.9 * returns[t + 1]
    np.testing.assert_allclose(got, returns[:6] - values[:-1], rtol=1e-5)


def test_streams_have_their_own_gamma_lambda_and_mask():
    rewards = jnp.ones((3, 1, 2))
    values = jnp.zeros((3, 1, 2))
    terminated = jnp.stack([flags(0, 1, 0), NO], -1)
    got = gae(
        rewards, values, values, terminated, jnp.zeros_like(terminated),
        gamma=jnp.array([0.5, 1.0]), lam=jnp.array([1.0, 0.5]),
    )  # fmt: skip
    # Stream 0: cut after step 1, so 1 + 0.5 * 1, 1, 1. Stream 1: gamma * lam = 0.5 all through, so 1.75, 1.5, 1.
    np.testing.assert_allclose(got[:, 0], [[1.5, 1.75], [1.0, 1.5], [1.0, 1.0]])


def test_monte_carlo_sums_to_the_end_of_each_episode():
    # Rewards 1, 2 | 4, 8 with gamma 0.5: a termination after step 1; step 3 truncates with V = 16.
    got = monte_carlo(column(1, 2, 4, 8), column(0, 0, 0, 16), flags(0, 1, 0, 0), flags(0, 0, 0, 1), gamma=0.5)
    np.testing.assert_allclose(got[:, 0], [2.0, 2.0, 4 + 0.5 * 16, 8 + 0.5 * 16])


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_monte_carlo_at_the_ends_of_gamma(gamma):
    got = monte_carlo(column(1, 2, 4), column(0, 0, 0), flags(0, 0, 1), NO, gamma=gamma)
    np.testing.assert_allclose(got[:, 0], [7, 6, 4] if gamma else [1, 2, 4])
