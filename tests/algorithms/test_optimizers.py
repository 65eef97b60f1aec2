"""What the named optimisers do, by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.algorithms.optimizers import OPTIMIZERS, init_optimizer
from gymlab.algorithms.ppo import PPOSettings
from gymlab.training.named_tensors import to_tensors

pytestmark = pytest.mark.fast


def test_the_first_step_of_adam_is_the_sign_of_the_gradient():
    """By hand: m = 0.1 g, v = 0.001 g², both corrected to g and g², so g / (|g| + eps)."""
    grads = {"w": jnp.asarray([2.0, -0.5], jnp.float32)}
    adam = OPTIMIZERS["adam"](1e-5)
    direction, moments = adam.update(grads, adam.init(grads))
    np.testing.assert_allclose(direction["w"], [2 / 2.00001, -0.5 / 0.50001], rtol=1e-5)
    assert int(moments.count) == 1


def test_rmsprop_by_hand():
    """v = 0.01 · 4 = 0.04, so 2 / (0.2 + eps)."""
    grads = {"w": jnp.asarray([2.0], jnp.float32)}
    rmsprop = OPTIMIZERS["rmsprop"](1e-5)
    direction, _ = rmsprop.update(grads, rmsprop.init(grads))
    np.testing.assert_allclose(direction["w"], [2 / 0.20001], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "moments"),
    [("adam", {"moments/count", "moments/mu/w", "moments/nu/w"}), ("rmsprop", {"moments/nu/w"}), ("sgd", set())],
)
def test_a_checkpoint_names_the_moments_as_it_always_did(name, moments):
    state = init_optimizer(PPOSettings(optimizer=name), {"w": jnp.ones(2)})
    assert set(to_tensors(state)) == moments | {"learning_rate"}
