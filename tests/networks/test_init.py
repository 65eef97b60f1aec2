import jax
import numpy as np
import pytest

from gymlab.networks.init import WeightSpec, _by_reflections, _drawn, _orthonormal, orthogonal, orthogonal_layers


@pytest.mark.parametrize("shape", [(4, 64), (64, 64), (64, 2), (64, 1), (8, 8, 4, 32), (3, 3, 64, 64)])
def test_the_weights_are_those_of_jaxs_own_initialiser(shape):
    key = jax.random.key(3)
    ours, theirs = orthogonal(key, shape, 1.4), jax.nn.initializers.orthogonal(1.4)(key, shape)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_wide_layers_are_made_in_another_way_and_come_out_the_same():
    matrix = jax.random.normal(jax.random.key(3), (700, 600))
    np.testing.assert_allclose(_by_reflections(matrix), _orthonormal(matrix), atol=2e-6)
    weights = orthogonal(jax.random.key(3), (600, 700), 2.0)
    np.testing.assert_allclose(weights @ weights.T, 4 * np.eye(600), atol=2e-5)


def test_columns_are_orthogonal_to_float32s_precision():
    weights = np.asarray(orthogonal(jax.random.key(0), (512, 256), 1.0), np.float64)
    assert np.abs(weights.T @ weights - np.eye(256)).max() < 2e-6


@pytest.mark.parametrize("shape", [(4, 64), (64, 1), (256, 6), (8, 8, 4, 32)])
def test_numbers_are_drawn_as_for_the_layer_alone(shape):
    # More are drawn than needed; with other numbers every recipe's first policy would be another one.
    drawn = jax.random.normal(jax.random.key(3), (np.prod(shape),))
    count = max(4096, 2 ** int(np.ceil(np.log2(np.prod(shape)))))
    assert (_drawn(jax.random.key(3)[None], count)[0, : drawn.size] == drawn).all()


def test_layers_made_together_are_those_made_one_by_one():
    shapes = [(4, 64), (64, 64), (128, 256), (64, 1)]
    wanted = [
        WeightSpec(key, shape, 1.5) for key, shape in zip(jax.random.split(jax.random.key(3), 4), shapes, strict=True)
    ]
    for one, weights in zip(wanted, orthogonal_layers(wanted), strict=True):
        np.testing.assert_array_equal(weights, orthogonal(*one))
