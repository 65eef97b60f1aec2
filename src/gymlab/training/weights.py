"""The weights after an update and what it changed in them: norms and samples, by part of the network."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from gymlab.algorithms.diagnostics import parts_of
from gymlab.core.types import Array
from gymlab.networks.flat import Params
from gymlab.training.samples import BINS, Named, chosen


def weight_norms(old: Params, new: Params) -> list[Named]:
    """Norms of the weights and of their change, whole and by part."""
    sizes = [sum(new[name].size for name in names) for names in parts_of(new).values()]
    after = _vector(new)
    squares = jnp.stack([after, after - _vector(old)]) ** 2  # many small sums cost more than the copy
    ends = np.cumsum(sizes)
    sums = jnp.stack([squares[:, end - size : end].sum(1) for size, end in zip(sizes, ends, strict=True)], 1)
    norms = jnp.sqrt(jnp.concatenate([sums.sum(1, keepdims=True), sums], 1))
    kinds = ("opt/param_norm", "opt/update_norm")
    names = tuple(f"{kind}{part}" for kind in kinds for part in ("", *(f"/{part}" for part in parts_of(new))))
    return [(names, norms.ravel())]


def weight_samples(old: Params, new: Params) -> dict[str, Array]:
    """Some weights of each part and their change, by the names of their histograms; small parts are left out."""
    found: dict[str, Array] = {}
    for part, names in parts_of(new).items():
        after, before = (jnp.concatenate([params[name].ravel() for name in names]) for params in (new, old))
        places = chosen(after.size)
        if after.size >= BINS:
            after, before = (after, before) if places is None else (after[places], before[places])
            found |= {f"opt/param_hist/{part}": after, f"opt/update_hist/{part}": after - before}
    return found


def _vector(params: Params) -> Array:
    """All weights, part by part."""
    return jnp.concatenate([params[name].ravel() for names in parts_of(params).values() for name in names])
