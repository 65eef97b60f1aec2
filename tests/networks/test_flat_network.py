"""Any Equinox module as a flat dict of named parameters, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gymlab.core.errors import UserError
from gymlab.networks.flat_network import FlatNetwork

pytestmark = pytest.mark.fast


class Scaled(eqx.Module):
    linear: eqx.nn.Linear
    offset: np.ndarray  # of floats: a parameter, as one of JAX's is
    order: np.ndarray  # of integers: a constant
    activation: Callable[[jax.Array], jax.Array]
    factor: float

    def __init__(self, key: jax.Array) -> None:
        self.linear = eqx.nn.Linear(3, 2, key=key)
        self.offset = np.full(2, 0.5, np.float32)
        self.order = np.array([2, 0, 1])
        self.activation = jax.nn.relu
        self.factor = 10.0

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.factor * self.activation(self.linear(x[self.order])) + self.offset


def test_floats_are_parameters_and_all_else_is_constant() -> None:
    flat = FlatNetwork(Scaled)
    params = jax.jit(flat.init)(jax.random.key(0))
    assert {name: array.shape for name, array in params.items()} == {
        "linear.weight": (2, 3),
        "linear.bias": (2,),
        "offset": (2,),
    }
    assert {name: shape.shape for name, shape in flat.shapes.items()} == {name: x.shape for name, x in params.items()}
    x = jnp.arange(3.0)
    expected = Scaled(jax.random.key(0))(x)
    np.testing.assert_allclose(jax.jit(lambda params: flat(params)(x))(params), expected, rtol=1e-6)
    gradient = jax.grad(lambda params: flat(params)(x).sum())(params)
    assert np.array_equal(gradient["offset"], [1, 1])


def test_a_parameter_that_is_missing_is_named() -> None:
    flat = FlatNetwork(Scaled)
    params = flat.init(jax.random.key(0))
    del params["offset"]
    with pytest.raises(KeyError, match="offset"):
        flat(params)


def test_integers_made_by_jax_are_refused_by_name() -> None:
    class Shuffled(eqx.Module):
        order: jax.Array

        def __init__(self, key: jax.Array) -> None:
            self.order = jax.random.permutation(key, 3)

    made: Any = Shuffled
    with pytest.raises(UserError, match=r"network: 'order' is a JAX array of int32.*make it a NumPy array"):
        FlatNetwork(made)
