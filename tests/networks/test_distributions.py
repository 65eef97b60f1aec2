import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.networks.distributions import Bernoulli, Categorical, Gaussian, MultiCategorical, to_env_action

pytestmark = pytest.mark.fast

KEY = jax.random.key(0)


def test_a_categorical_by_hand():
    # Logits ln 1, ln 2, ln 5: probabilities 1/8, 2/8, 5/8.
    policy = Categorical.of(jnp.log(jnp.array([1.0, 2.0, 5.0])))
    p = np.array([1, 2, 5]) / 8
    np.testing.assert_allclose(policy.log_prob(jnp.array(2)), np.log(5 / 8), rtol=1e-6)
    np.testing.assert_allclose(policy.entropy(), -(p * np.log(p)).sum(), rtol=1e-6)
    assert int(policy.mode()) == 2


def test_masked_actions_are_never_chosen_and_take_no_probability():
    policy = Categorical.of(jnp.zeros((1000, 3)), jnp.array([True, False, True]))
    actions = policy.sample(KEY)
    assert not (actions == 1).any()
    np.testing.assert_allclose(policy.log_prob(jnp.zeros(1000, int)), np.log(0.5), rtol=1e-6)
    np.testing.assert_allclose(policy.entropy(), np.log(2), rtol=1e-5)


def test_components_of_a_multidiscrete_action_are_independent():
    parts = tuple(Categorical.of(jnp.array([row, row[::-1]], jnp.float32)) for row in ([0.1, 0.7], [0.5, -0.5]))
    both = MultiCategorical(parts)
    action = jnp.array([[0, 1], [1, 1]])
    separate = sum(part.log_prob(action[:, i]) for i, part in enumerate(parts))
    np.testing.assert_allclose(both.log_prob(action), separate)
    np.testing.assert_allclose(both.entropy(), sum(part.entropy() for part in parts))
    assert both.sample(KEY).shape == (2, 2)


def test_a_gaussian_sums_its_components():
    # N(0, 1) at 0 and N(1, 2) at 3: -0.9189 and -0.5 - ln 2 - 0.9189.
    policy = Gaussian(jnp.array([[0.0, 1.0]]), jnp.log(jnp.array([1.0, 2.0])))
    expected = -0.5 * np.log(2 * np.pi) + (-0.5 - np.log(2) - 0.5 * np.log(2 * np.pi))
    np.testing.assert_allclose(policy.log_prob(jnp.array([[0.0, 3.0]])), [expected], rtol=1e-6)
    np.testing.assert_allclose(policy.entropy(), [np.log(2) + 1 + np.log(2 * np.pi)], rtol=1e-6)


def test_a_bernoulli_by_hand():
    # Two switches with p = 3/4 and 1/2.
    policy = Bernoulli(jnp.array([[np.log(3.0), 0.0]]))
    np.testing.assert_allclose(policy.log_prob(jnp.array([[1, 0]])), [np.log(3 / 4) + np.log(1 / 2)], rtol=1e-6)
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) + np.log(2)
    np.testing.assert_allclose(policy.entropy(), [entropy], rtol=1e-6)


PAIRS = [
    (Categorical.of(jnp.array([[0.3, -1.0, 2.0]])), Categorical.of(jnp.array([[0.0, 0.5, 0.1]]))),
    (Bernoulli(jnp.array([[0.4, -2.0]])), Bernoulli(jnp.array([[0.0, 1.0]]))),
    (
        Gaussian(jnp.array([[0.2, -1.0]]), jnp.array([0.1, -0.4])),
        Gaussian(jnp.array([[0.0, 0.3]]), jnp.array([0.0, 0.2])),
    ),
]


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=lambda d: type(d).__name__)
def test_kl_is_zero_to_itself_and_agrees_with_sampling(old, new):
    np.testing.assert_allclose(old.kl(old), 0.0, atol=1e-6)
    keys = jax.random.split(KEY, 40_000)
    actions = jax.vmap(old.sample)(keys)
    sampled = jax.vmap(lambda a: old.log_prob(a) - new.log_prob(a))(actions)
    np.testing.assert_allclose(old.kl(new), sampled.mean(0), rtol=0.05)


@pytest.mark.parametrize("xp", [np, jnp])
def test_numbers_of_an_integer_box_are_clipped_and_rounded(xp):
    samples = xp.array([[-7.0], [-0.4], [0.4], [1.6], [2.6], [9.0]], np.float32)
    sent = to_env_action(spaces.Box(0, 3, (1,), np.int32), samples)
    assert sent.dtype == np.int32
    assert sent[:, 0].tolist() == [0, 0, 0, 2, 3, 3]
    below = to_env_action(spaces.Box(-3, 0, (1,), np.int8), -samples)
    assert below[:, 0].tolist() == [0, 0, 0, -2, -3, -3]
    floats = to_env_action(spaces.Box(0, 3, (1,), np.float32), samples)
    assert floats[:, 0].tolist() == pytest.approx([0, 0, 0.4, 1.6, 2.6, 3])
