"""What the named optimisers do, by hand; users' own; the names of their state in checkpoints."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from pydantic import ValidationError

from gymlab.algorithms.optimizers import Optimizer, check_optimizer
from gymlab.algorithms.ppo import PPOSettings
from gymlab.core.errors import UserError
from gymlab.training.named_tensors import to_tensors

pytestmark = pytest.mark.fast

ADAM = {"moments/count", "moments/mu/w", "moments/nu/w"}


def moved(gradient, steps=1, make=None, **settings):
    """Where weights of 1 are after steps of length 1 along one gradient, which clipping leaves alone."""
    optimizer = Optimizer(PPOSettings(**settings), make)
    params = {"w": jnp.ones(len(gradient))}
    state = optimizer.start_update(optimizer.init(params), params, jnp.float32(1.0))
    for _ in range(steps):
        params, state, _ = optimizer.step(state, params, {"w": jnp.asarray(gradient, jnp.float32)}, jnp.float32(1e9))
    return np.asarray(params["w"])


def test_the_first_step_of_adam_is_the_sign_of_the_gradient():
    """By hand: m = 0.1 g, v = 0.001 g², both corrected to g and g², so g / (|g| + eps)."""
    weights = moved([2.0, -0.5], optimizer="adam", optimizer_eps=0.1)
    np.testing.assert_allclose(weights, [1 - 2 / 2.1, 1 + 0.5 / 0.6], atol=2e-5)


def test_adamw_also_shrinks_the_weights():
    """By hand: as Adam, and 0.01 (or what is set) of the weights of 1."""
    adam = moved([2.0], optimizer="adam")
    np.testing.assert_allclose(moved([2.0], optimizer="adamw"), adam - 0.01, atol=1e-6)
    np.testing.assert_allclose(moved([2.0], optimizer="adamw", weight_decay=0.5), adam - 0.5, atol=1e-6)
    np.testing.assert_array_equal(moved([2.0], optimizer="adamw", weight_decay=0), adam)
    np.testing.assert_allclose(moved([2.0], optimizer="sgd", weight_decay=0.5), [1 - 2 - 0.5], atol=1e-6)


def test_rmsprop_by_hand():
    """v = 0.01 · 4 = 0.04, so 2 / (0.2 + eps)."""
    np.testing.assert_allclose(moved([2.0], optimizer="rmsprop", optimizer_eps=0.1), [1 - 2 / 0.3], rtol=1e-5)


def test_radam_begins_as_momentum():
    """By hand: below its threshold of 5 RAdam takes the corrected mean, here the gradient itself; Adam takes its sign.
    It is reached in step 6: rho(t) = 1999 - 2 t 0.999^t / (1 - 0.999^t) is 4.5 at t = 5 and 5.5 at t = 6.
    """
    np.testing.assert_allclose(moved([0.25], 5, optimizer="radam"), [1 - 5 * 0.25], rtol=1e-5)
    assert not np.allclose(moved([0.25], 6, optimizer="radam"), [1 - 6 * 0.25], rtol=1e-2)


def test_an_optimiser_of_ones_own_by_reference():
    """By hand: Lion's first step is the sign of the gradient."""
    make = check_optimizer("optax:scale_by_lion", optax.scale_by_lion)
    np.testing.assert_array_equal(moved([0.25, -3.0], make=make, optimizer="optax:scale_by_lion"), [0, 2])


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (3, "'me:it' is not a function that returns"),
        (optax.adam, "'me:it' cannot be called without arguments"),
        (lambda: 3, r"'me:it' does not return an optax.GradientTransformation \(got int\)"),
        (lambda: optax.adam(1e-3), "leave the learning rate and its sign out"),
    ],
)
def test_other_things_are_refused_in_one_line(found, message):
    with pytest.raises(UserError, match=message) as error:
        check_optimizer("me:it", found)
    assert "\n" not in str(error.value)


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ValidationError, match="unknown optimizer 'adamx': did you mean 'adam'"):
        PPOSettings(optimizer="adamx")


@pytest.mark.parametrize(
    ("name", "moments"),
    [
        ("adam", ADAM),
        ("radam", ADAM),
        ("adamw", {"moments/0/count", "moments/0/mu/w", "moments/0/nu/w"}),
        ("rmsprop", {"moments/nu/w"}),
        ("sgd", set()),
    ],
)
def test_a_checkpoint_names_the_moments_as_it_always_did(name, moments):
    state = Optimizer(PPOSettings(optimizer=name)).init({"w": jnp.ones(2)})
    assert set(to_tensors(state)) == moments | {"learning_rate"}
