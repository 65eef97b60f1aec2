"""The optimisers are Optax's to the last bit."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gymlab.algorithms.optimizers import OPTIMIZERS

pytestmark = pytest.mark.fast

OPTAX = {
    "adam": optax.scale_by_adam(eps=1e-5),
    "rmsprop": optax.scale_by_rms(decay=0.99, eps=1e-5, eps_in_sqrt=False),
    "sgd": optax.identity(),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps_are_optaxs_to_the_last_bit(name):
    rng = np.random.default_rng(0)
    params = {"weights": jnp.ones((7, 5)), "bias": jnp.zeros(5)}
    ours, theirs = OPTIMIZERS[name].init(params), OPTAX[name].init(params)
    mine, optaxs = jax.jit(lambda m, g: m.update(g, 1e-5)), jax.jit(lambda m, g: OPTAX[name].update(g, m))
    for scale in np.geomspace(1e-6, 1e3, 50):
        grads = {key: jnp.asarray(scale * rng.standard_normal(p.shape), jnp.float32) for key, p in params.items()}
        direction, ours = mine(ours, grads)
        expected, theirs = optaxs(theirs, grads)
        for one, other in zip(jax.tree.leaves((direction, ours)), jax.tree.leaves((expected, theirs)), strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_first_step_of_adam_is_the_sign_of_the_gradient():
    """By hand: m = 0.1 g, v = 0.001 g², both corrected to g and g², so g / (|g| + eps)."""
    grads = {"w": jnp.asarray([2.0, -0.5], jnp.float32)}
    direction, moments = OPTIMIZERS["adam"].init(grads).update(grads, 1e-5)
    np.testing.assert_allclose(direction["w"], [2 / 2.00001, -0.5 / 0.50001], rtol=1e-5)
    assert int(moments.count) == 1


def test_rmsprop_by_hand():
    """v = 0.01 · 4 = 0.04, so 2 / (0.2 + eps)."""
    grads = {"w": jnp.asarray([2.0], jnp.float32)}
    direction, _ = OPTIMIZERS["rmsprop"].init(grads).update(grads, 1e-5)
    np.testing.assert_allclose(direction["w"], [2 / 0.20001], rtol=1e-5)
