"""Convolution in two forms of equal result: as matrix products, which CPUs do fast, and as one operation for GPUs."""

from __future__ import annotations

import math
from functools import reduce
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.types import Array
from gymlab.networks.init import orthogonal


def on_cpu() -> bool:
    """Whether maths runs on the CPU: decided while tracing, once the device has been chosen."""
    device: jax.Device | None = getattr(jax.config, "jax_default_device", None)
    return (getattr(device, "platform", None) or jax.default_backend()) == "cpu"


class Conv(eqx.Module):
    """Square kernel over (n, rows, columns, channels), orthogonal weights with gain sqrt 2."""

    weight: Array  # (kernel, kernel, in, out)
    bias: Array  # (out,)
    stride: int = eqx.field(static=True)
    pad: int = eqx.field(static=True)

    def __init__(self, key: Array, channels: tuple[int, int], kernel: int, stride: int = 1, pad: int = 0) -> None:
        shape = (kernel, kernel, *channels)
        self.weight = orthogonal(key, shape, math.sqrt(2))
        self.bias = jnp.zeros(channels[1], jnp.float32)
        self.stride = stride
        self.pad = pad

    def __call__(self, x: Array) -> Array:
        return self.by_products(x) if on_cpu() else self.by_convolution(x)

    def by_convolution(self, x: Array) -> Array:
        padding = [(self.pad, self.pad)] * 2
        numbers = ("NHWC", "HWIO", "NHWC")
        image, kernel = cast("tuple[jax.Array, jax.Array]", (x, self.weight))
        y = lax.conv_general_dilated(image, kernel, (self.stride,) * 2, padding, dimension_numbers=numbers)
        return y + self.bias

    def by_products(self, x: Array) -> Array:
        """A stride becomes more channels, then each row of patches is multiplied by the kernel as a matrix."""
        kernel = self.weight.shape[0]
        stride = self.stride
        weight = self.weight
        if self.pad:
            x = jnp.pad(x, [(0, 0), (self.pad, self.pad), (self.pad, self.pad), (0, 0)])
        rows, columns = out_size(x.shape[1], kernel, stride), out_size(x.shape[2], kernel, stride)
        if stride > 1 and kernel % stride == 0:
            x = _space_to_depth(x[:, : (rows - 1) * stride + kernel, : (columns - 1) * stride + kernel], stride)
            weight = _fold(weight, stride)
            kernel = kernel // stride
            stride = 1
        patches = [
            x[:, i : i + (rows - 1) * stride + 1 : stride, j : j + (columns - 1) * stride + 1 : stride]
            for i in range(kernel)
            for j in range(kernel)
        ]
        flat = jnp.concatenate(patches, -1)
        y = flat.reshape(-1, flat.shape[-1]) @ weight.reshape(flat.shape[-1], -1)
        return y.reshape(*flat.shape[:3], -1) + self.bias


def out_size(size: int, kernel: int, stride: int) -> int:
    """Rows (or columns) after a convolution without padding."""
    return (size - kernel) // stride + 1


def max_pool(x: Array) -> Array:
    """The largest of 3 x 3 neighbours, at every second row and column; as shifted maxima, whose gradient is cheap."""
    rows, columns = (out_size(size + 2, 3, 2) for size in x.shape[1:3])
    x = jnp.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], constant_values=-jnp.inf)
    shifted = [x[:, i : i + 2 * rows - 1 : 2, j : j + 2 * columns - 1 : 2] for i in range(3) for j in range(3)]
    return reduce(jnp.maximum, shifted)


def _space_to_depth(x: Array, block: int) -> Array:
    n, rows, columns, channels = x.shape
    x = x.reshape(n, rows // block, block, columns // block, block, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, rows // block, columns // block, block * block * channels)


def _fold(weight: Array, block: int) -> Array:
    """The kernel that does to blocks what `weight` does to pixels."""
    kernel, _, channels, out = weight.shape
    small = kernel // block
    w = weight.reshape(small, block, small, block, channels, out)
    return w.transpose(0, 2, 1, 3, 4, 5).reshape(small, small, block * block * channels, out)
