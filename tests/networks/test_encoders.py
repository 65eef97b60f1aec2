"""Encoders for pictures: both forms of convolution agree, and the shape of what is seen picks the network."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.networks import convolution, encoders
from gymlab.networks.convolution import Conv, max_pool
from gymlab.networks.encoders import (
    FlattenEncoder,
    ImpalaCNN,
    MakeEncoder,
    NatureCNN,
    SmallCNN,
    choose_encoder,
    default_encoder,
    describe_pictures,
    image_shape,
)
from gymlab.networks.settings import PolicySettings

ATARI = spaces.Box(0, 255, (84, 84, 4), np.uint8)
TINY = spaces.Box(0, 255, (36, 40, 2), np.uint8)  # of what Nature's kernels fit
BOARD = spaces.Box(0, 1, (10, 10, 4), bool)
KEY = jax.random.key(0)


def shown(space: spaces.Box, n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, 2 if space.dtype == bool else 256, (n, *space.shape)).astype(space.dtype)


def built(make: MakeEncoder, space: spaces.Space) -> Any:
    return eqx.filter_jit(lambda: make(KEY, space))()


@pytest.mark.parametrize(("kernel", "stride", "pad", "side"), [(8, 4, 0, 37), (4, 2, 0, 9), (3, 1, 1, 6), (3, 2, 0, 8)])
def test_products_equal_the_convolution_in_value_and_gradient(kernel: int, stride: int, pad: int, side: int) -> None:
    conv = Conv(KEY, (3, 5), kernel, stride, pad)
    x = jax.random.normal(KEY, (2, side, side + 1, 3))

    def loss(conv: Conv, form: str) -> jax.Array:
        return (getattr(conv, form)(x) ** 2).mean()

    @jax.jit
    def forms(conv: Conv) -> list[Any]:
        return [(getattr(conv, form)(x), jax.grad(loss)(conv, form)) for form in ("by_products", "by_convolution")]

    ours, theirs = forms(conv)
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert np.allclose(mine, other, atol=1e-4)


def test_the_pooling_is_the_largest_of_nine() -> None:
    # reduce_window with the same padding is the textbook form.
    x = jax.random.normal(KEY, (2, 7, 10, 3))
    window, steps = (1, 3, 3, 1), (1, 2, 2, 1)
    padding = [(0, 0), (1, 1), (1, 1), (0, 0)]
    assert (max_pool(x) == jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, steps, padding)).all()


@pytest.mark.parametrize(
    ("make", "space"), [(NatureCNN, TINY), pytest.param(ImpalaCNN, BOARD, marks=pytest.mark.slow), (SmallCNN, BOARD)]
)
def test_a_network_is_the_same_on_both_devices_and_for_any_leading_axes(
    make: type, space: spaces.Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x = built(make, space), shown(space, 6)

    @jax.jit
    def ways(x: jax.Array) -> list[jax.Array]:
        monkeypatch.setattr(encoders, "MICRO_BATCH", 4)
        found = [net(x)]  # two micro-batches, one of them not full
        for module in (convolution, encoders):
            monkeypatch.setattr(module, "on_cpu", lambda: False)
        found += [net(x.reshape(2, 3, *space.shape)).reshape(6, -1), net.activations(x)["dense"], net(x)]
        return [*found, jnp.concatenate([net(x[0])[None], found[-1][1:]])]

    *others, whole, _ = found = ways(x)
    assert whole.shape == (6, net.size)
    assert len(others) == 3
    assert all(np.abs(y - whole).max() < 1e-4 for y in found)


def test_the_sizes_are_those_of_the_papers() -> None:
    def sizes(make: type) -> tuple[dict[str, tuple[int, ...]], int]:
        shown = jax.ShapeDtypeStruct((1, *ATARI.shape), ATARI.dtype)
        layers = jax.eval_shape(lambda x: make(KEY, ATARI).activations(x), shown)
        weights = jax.tree.leaves(jax.eval_shape(lambda: jax.tree.leaves(make(KEY, ATARI))))
        return {name: values.shape[1:] for name, values in layers.items()}, sum(leaf.size for leaf in weights)

    # 8*8*4*32+32 + 4*4*32*64+64 + 3*3*64*64+64 + 3136*512+512 weights
    nature = {"conv0": (20, 20, 32), "conv1": (9, 9, 64), "conv2": (7, 7, 64), "dense": (512,)}
    assert sizes(NatureCNN) == (nature, 1_684_128)
    impala = {"stage0": (42, 42, 16), "stage1": (21, 21, 32), "stage2": (11, 11, 32), "dense": (256,)}
    assert sizes(ImpalaCNN)[0] == impala


def test_bytes_are_scaled_and_channels_first_is_turned_round() -> None:
    first = spaces.Box(0, 255, (2, 36, 40), np.uint8)
    floats = spaces.Box(0, 1, (36, 40, 2), np.float32)
    x = shown(TINY, 2)

    @jax.jit
    def ways(x: jax.Array) -> list[jax.Array]:
        turned, scaled = jnp.moveaxis(x, -1, 1), x.astype(jnp.float32) / 255
        return [NatureCNN(KEY, space)(y) for space, y in ((TINY, x), (first, turned), (floats, scaled))]

    expected, *others = ways(x)
    assert all(np.allclose(y, expected, atol=1e-5) for y in others)


def test_the_shape_of_what_is_seen_picks_the_encoder() -> None:
    assert default_encoder(ATARI) == "nature_cnn"
    assert default_encoder(BOARD) == "small_cnn"
    assert default_encoder(spaces.Box(0, 255, (84, 84), np.uint8)) == "nature_cnn"
    assert default_encoder(spaces.Box(-1, 1, (4,))) is None
    assert default_encoder(spaces.Box(-1, 1, (20, 20))) is None  # a table
    assert default_encoder(spaces.Discrete(3)) is None
    assert image_shape(spaces.Box(0, 255, (4, 84, 84), np.uint8)) == (84, 84, 4, True)
    assert choose_encoder(spaces.Discrete(3), None) is FlattenEncoder


@pytest.mark.parametrize(
    ("shape", "expected", "words"),
    [
        ((8, 8, 12), (8, 8, 12, False), "8 x 8 with 12 channels"),  # more planes than rows
        ((8, 8, 111), (8, 8, 111, False), "8 x 8 with 111 channels"),
        ((7, 7, 20), (7, 7, 20, False), "7 x 7 with 20 channels"),
        ((17, 9, 9), (9, 9, 17, True), "9 x 9 with 17 channels"),
        ((12, 8, 8), (8, 8, 12, True), "8 x 8 with 12 channels"),
        ((64, 64, 3), (64, 64, 3, False), "64 x 64 with 3 channels"),
        ((3, 64, 64), (64, 64, 3, True), "64 x 64 with 3 channels"),
        ((1, 9, 9), (9, 9, 1, True), "9 x 9 with 1 channel"),
        ((10, 10, 10), (10, 10, 10, False), "10 x 10 with 10 channels"),
        ((36, 40, 2), (36, 40, 2, False), "36 x 40 with 2 channels"),  # no two are equal: the smaller outer one
        ((2, 36, 40), (36, 40, 2, True), "36 x 40 with 2 channels"),
        ((8, 12, 8), (8, 12, 8, False), "8 x 12 with 8 channels"),  # equal, but not beside each other
    ],
)
def test_two_equal_sides_are_the_picture_and_the_odd_one_the_channels(shape, expected, words) -> None:
    board = spaces.Box(0, 1, shape, np.uint8)
    assert image_shape(board) == expected
    assert describe_pictures(board) == words
    assert describe_pictures(spaces.Dict(a=board, b=spaces.Discrete(2))) == words


def test_a_board_of_twelve_planes_gives_what_its_transposed_twin_gives() -> None:
    last = spaces.Box(0, 1, (8, 8, 12), np.uint8)
    first = spaces.Box(0, 1, (12, 8, 8), np.uint8)
    x = np.random.default_rng(0).integers(0, 2, (3, 8, 8, 12), dtype=np.uint8)
    y = choose_encoder(last, None)(KEY, last)(x)
    assert np.array_equal(y, choose_encoder(first, None)(KEY, first)(np.moveaxis(x, -1, 1)))


def test_pictures_inside_a_dict_get_a_network_of_their_own() -> None:
    space = spaces.Dict({"board": BOARD, "speed": spaces.Box(-1, 1, (2,)), "kind": spaces.Discrete(3)})
    net = built(choose_encoder(space, None), space)
    obs = {"board": shown(BOARD, 2), "speed": np.ones((2, 2), np.float32), "kind": np.array([0, 2])}
    assert net.size == 128 + 2 + 3
    y, layers = jax.jit(lambda obs: (net(obs), net.activations(obs)))(obs)
    assert y.shape == (2, net.size)
    assert list(layers) == ["board.conv0", "board.dense"]


def test_an_encoder_that_does_not_fit_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match=r"nature_cnn needs pictures of 36 x 36 pixels or more"):
        choose_encoder(BOARD, "nature_cnn")(KEY, BOARD)
    with pytest.raises(UserError, match="small_cnn needs pictures"):
        choose_encoder(spaces.Box(-1, 1, (4,)), "small_cnn")
    with pytest.raises(ValueError, match="unknown encoder 'natur_cnn': did you mean 'nature_cnn'"):
        PolicySettings(encoder="natur_cnn")
