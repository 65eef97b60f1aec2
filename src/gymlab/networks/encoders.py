"""Observation encoders: flattening by space, image CNNs (Nature, IMPALA, small), and both for Dict and Tuple.

Images are rows x columns x channels (channels-first ones are transposed); bytes are scaled to [0, 1]. Each CNN ends in
one dense layer, so `policy.hidden` may be empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jax import lax

from gymlab.core.errors import UserError
from gymlab.core.types import Array, Space, Tree
from gymlab.networks.convolution import Conv, max_pool, on_cpu, out_size
from gymlab.networks.init import orthogonal


def feature_count(space: Space) -> int:
    """How many numbers `encode` gives for one observation."""
    if isinstance(space, spaces.Box):
        return int(np.prod(space.shape))
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.MultiBinary):
        return int(np.prod(space.shape))
    if isinstance(space, spaces.Dict):
        return sum(feature_count(part) for part in space.spaces.values())
    if isinstance(space, spaces.Tuple):
        return sum(feature_count(part) for part in space.spaces)
    raise UserError(
        f"observation space {type(space).__name__} is not supported: use Box, Discrete, MultiDiscrete, MultiBinary, "
        "Dict or Tuple (a wrapper can convert it)"
    )


def encode(space: Space, obs: Tree) -> Array:
    """(..., feature_count): numbers as they are, bytes scaled to [0, 1], choices as one-hot vectors."""
    if isinstance(space, spaces.Dict):
        return jnp.concatenate([encode(part, obs[name]) for name, part in space.spaces.items()], -1)
    if isinstance(space, spaces.Tuple):
        return jnp.concatenate([encode(part, obs[i]) for i, part in enumerate(space.spaces)], -1)
    if isinstance(space, spaces.Discrete):
        return jax.nn.one_hot(obs - int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        sizes = space.nvec.ravel()
        starts = space.start.ravel()
        flat = _flatten(obs, len(space.shape))
        hot = [jax.nn.one_hot(flat[..., i] - int(starts[i]), int(size)) for i, size in enumerate(sizes)]
        return jnp.concatenate(hot, -1)
    flat = _flatten(obs, len(space.shape or ()))
    return flat.astype(jnp.float32) / 255.0 if space.dtype == np.uint8 else flat.astype(jnp.float32)


class Encoder(Protocol):
    """An `equinox.Module` made by `Encoder(key, space)`. A user's own needs nothing else."""

    @property
    def size(self) -> int:
        """How many features it gives."""
        ...

    def __call__(self, obs: Tree) -> Array:
        """The features of observations with any leading axes, (..., size)."""
        ...


MakeEncoder = Callable[[Array, Space], Encoder]  # (key, observation space)


class FlattenEncoder(eqx.Module):
    """The default encoder: numbers as they are, bytes scaled, choices one-hot."""

    size: int = eqx.field(static=True)
    space: Space = eqx.field(static=True)

    def __init__(self, key: Array, space: Space) -> None:
        del key
        self.size = feature_count(space)
        self.space = space

    def __call__(self, obs: Tree) -> Array:
        return encode(self.space, obs)


def _flatten(array: Array, event_axes: int) -> Array:
    lead = array.shape[: array.ndim - event_axes]
    return array.reshape(*lead, -1)


MICRO_BATCH = 256  # pictures unfolded at a time on a CPU: 0.7 MB each for Nature's network
_SMALLEST = 5  # sides of a picture that is no table, and of one that Nature's kernels fit
_LARGE = 36
Layer = tuple[str, Callable[[Array], Array]]


class ImageShape(NamedTuple):
    """A picture as the network sees it."""

    rows: int
    columns: int
    channels: int
    channels_first: bool = False  # as it arrives


def image_shape(space: Space) -> ImageShape | None:
    """The shape of a space of pictures; None where it is something else.

    Of three axes, two equal ones beside each other are the picture and the odd one the channels (boards often have more
    planes than rows); else the smaller of the outer two is the channels, the last where they are equal.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
        return None
    if len(space.shape) == 2:
        # A float matrix is rather a table than a picture.
        return ImageShape(*space.shape, 1) if space.dtype == np.uint8 and min(space.shape) >= _SMALLEST else None
    first, middle, last = space.shape
    channels_first = last > first if (first == middle) == (middle == last) else middle == last
    rows, columns, channels = (middle, last, first) if channels_first else space.shape
    return ImageShape(rows, columns, channels, channels_first) if min(rows, columns) >= _SMALLEST else None


class _Dense(eqx.Module):
    weight: Array
    bias: Array

    def __init__(self, key: Array, size_in: int, size_out: int) -> None:
        self.weight = orthogonal(key, (size_in, size_out), math.sqrt(2))
        self.bias = jnp.zeros(size_out, jnp.float32)

    def __call__(self, x: Array) -> Array:
        return jax.nn.relu(x.reshape(len(x), -1) @ self.weight + self.bias)


class _Pictures(eqx.Module):
    """Shared by all: what goes in, micro-batches, and the layers shown one by one."""

    size: int = eqx.field(static=True)
    shape: ImageShape = eqx.field(static=True)
    bytes_in: bool = eqx.field(static=True)

    def layers(self) -> list[Layer]:
        """Name and function of each layer: convolutions, then one that is dense."""
        raise NotImplementedError

    def __call__(self, obs: Tree) -> Array:
        x, lead = self._fold(obs)
        *convolutions, (_, dense) = self.layers()

        def features(x: Array) -> Array:
            x = self._scaled(x)
            for _, layer in convolutions:
                x = layer(x)
            return x.reshape(len(x), -1)

        if on_cpu() and len(x) > MICRO_BATCH:
            # What was unfolded is unfolded again for the gradient rather than kept. The dense layer stays outside: its
            # large gradient would be added up once per micro-batch.
            again = jax.checkpoint(lambda one: features(one[None])[0])
            y = lax.map(again, x, batch_size=MICRO_BATCH)
        else:
            y = features(x)
        return dense(y).reshape(*lead, self.size)

    def activations(self, obs: Tree) -> dict[str, Array]:
        """What each layer gives, by name."""
        x, lead = self._fold(obs)
        x = self._scaled(x)
        found = {}
        for name, layer in self.layers():
            x = layer(x)
            found[name] = x.reshape(*lead, *x.shape[1:])
        return found

    def _fold(self, obs: Tree) -> tuple[Array, tuple[int, ...]]:
        rows, columns, channels, first = self.shape
        single = 2 if channels == 1 and obs.shape[-2:] == (rows, columns) else 3
        lead = obs.shape[: obs.ndim - single]
        if first:
            obs = jnp.moveaxis(obs, -3, -1)
        return obs.reshape(-1, rows, columns, channels), lead

    def _scaled(self, x: Array) -> Array:
        x = x.astype(jnp.float32)
        return x / 255.0 if self.bytes_in else x


class NatureCNN(_Pictures):
    """Three convolutions and 512 dense units (Mnih et al., 2015). For sides of 36 and more."""

    convs: tuple[Conv, ...]
    dense: _Dense

    def __init__(self, key: Array, space: Space) -> None:
        shape, self.bytes_in = _needed(space, _LARGE, "nature_cnn")
        keys = jax.random.split(key, 4)
        plan = ((shape.channels, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1))
        self.convs = tuple(Conv(k, (a, b), size, stride) for k, (a, b, size, stride) in zip(keys, plan, strict=False))
        rows, columns = shape.rows, shape.columns
        for _, _, size, stride in plan:
            rows, columns = out_size(rows, size, stride), out_size(columns, size, stride)
        self.dense = _Dense(keys[3], rows * columns * 64, 512)
        self.size = 512
        self.shape = shape

    def layers(self) -> list[Layer]:
        return [*((f"conv{i}", _relu(conv)) for i, conv in enumerate(self.convs)), ("dense", self.dense)]


class SmallCNN(_Pictures):
    """One convolution and 128 dense units: for boards such as MinAtar's 10 x 10."""

    conv: Conv
    dense: _Dense

    def __init__(self, key: Array, space: Space) -> None:
        shape, self.bytes_in = _needed(space, _SMALLEST, "small_cnn")
        k_conv, k_dense = jax.random.split(key)
        self.conv = Conv(k_conv, (shape.channels, 16), 3)
        self.dense = _Dense(k_dense, (shape.rows - 2) * (shape.columns - 2) * 16, 128)
        self.size = 128
        self.shape = shape

    def layers(self) -> list[Layer]:
        return [("conv0", _relu(self.conv)), ("dense", self.dense)]


class ImpalaCNN(_Pictures):
    """Three stages of a convolution, pooling and two residual blocks, and 256 dense units (Espeholt et al., 2018)."""

    stages: tuple[tuple[Conv, ...], ...]  # of each stage: the convolution before pooling, then two for each block
    dense: _Dense

    def __init__(self, key: Array, space: Space) -> None:
        shape, self.bytes_in = _needed(space, 8, "impala_cnn")
        keys = iter(jax.random.split(key, 16))
        rows = shape.rows
        columns = shape.columns
        width = shape.channels
        stages = []
        for wide in (16, 32, 32):
            pairs = [(width, wide), *[(wide, wide)] * 4]
            stages.append(tuple(Conv(next(keys), pair, 3, pad=1) for pair in pairs))
            rows = (rows + 1) // 2
            columns = (columns + 1) // 2
            width = wide
        self.stages = tuple(stages)
        self.dense = _Dense(next(keys), rows * columns * width, 256)
        self.size = 256
        self.shape = shape

    def layers(self) -> list[Layer]:
        return [*((f"stage{i}", _stage(convs)) for i, convs in enumerate(self.stages)), ("dense", self.dense)]


class CompositeEncoder(eqx.Module):
    """Pictures inside a Dict or Tuple, each through a network of its own, beside the rest as numbers."""

    parts: dict[str, Encoder]
    names: tuple[str | int, ...] = eqx.field(static=True)  # keys of a Dict, places in a Tuple
    size: int = eqx.field(static=True)

    def __init__(self, key: Array, space: Space, make: MakeEncoder) -> None:
        assert isinstance(space, spaces.Dict | spaces.Tuple), "no other has parts"
        pairs = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        inner: dict[str | int, Space] = dict(pairs)
        self.names = tuple(inner)
        keys = jax.random.split(key, len(self.names))
        self.parts = {str(name): make(k, inner[name]) for k, name in zip(keys, self.names, strict=True)}
        self.size = sum(part.size for part in self.parts.values())

    def __call__(self, obs: Tree) -> Array:
        return jnp.concatenate([self.parts[str(name)](obs[name]) for name in self.names], -1)

    def activations(self, obs: Tree) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for name in self.names:
            activations = getattr(self.parts[str(name)], "activations", None)
            if activations is not None:
                found |= {f"{name}.{layer}": values for layer, values in activations(obs[name]).items()}
        return found


ENCODERS: dict[str, MakeEncoder] = {"nature_cnn": NatureCNN, "impala_cnn": ImpalaCNN, "small_cnn": SmallCNN}


def default_encoder(space: Space) -> str | None:
    """The encoder that suits a space by default; None: it is flattened."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return next((name for name in map(default_encoder, inner) if name is not None), None)
    shape = image_shape(space)
    if shape is None:
        return None
    return "nature_cnn" if min(shape.rows, shape.columns) >= _LARGE else "small_cnn"


def describe_pictures(space: Space) -> str:
    """How the pictures of a space are read: "8 x 8 with 12 channels"; several are separated by commas."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return ", ".join(filter(None, map(describe_pictures, inner)))
    shape = image_shape(space)
    if shape is None:
        return ""
    return f"{shape.rows} x {shape.columns} with {shape.channels} channel{'s' if shape.channels != 1 else ''}"


def choose_encoder(space: Space, name: str | None) -> MakeEncoder:
    """The encoder of this name (None: what suits each part) for a space with pictures, else the flattening one."""
    if default_encoder(space) is None:
        if name is None:
            return FlattenEncoder
        raise UserError(f"policy.encoder: {name} needs pictures (a Box of rows x columns x channels), got {space}")

    def make(key: Array, part: Space) -> Encoder:
        suits = default_encoder(part)
        if suits is None:
            return FlattenEncoder(key, part)
        if isinstance(part, spaces.Dict | spaces.Tuple):
            return CompositeEncoder(key, part, make)
        return ENCODERS[name or suits](key, part)

    return make


def _needed(space: Space, smallest: int, name: str) -> tuple[ImageShape, bool]:
    shape = image_shape(space)
    if shape is None or min(shape.rows, shape.columns) < smallest:
        raise UserError(f"policy.encoder: {name} needs pictures of {smallest} x {smallest} pixels or more, got {space}")
    return shape, space.dtype == np.uint8


def _relu(conv: Conv) -> Callable[[Array], Array]:
    return lambda x: jax.nn.relu(conv(x))


def _stage(convs: tuple[Conv, ...]) -> Callable[[Array], Array]:
    def run(x: Array) -> Array:
        x = max_pool(convs[0](x))
        for first, second in (convs[1:3], convs[3:5]):
            x = x + second(jax.nn.relu(first(jax.nn.relu(x))))
        return jax.nn.relu(x)

    return run
