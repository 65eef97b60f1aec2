"""Histograms of an update: sampling, binning, packing into one array, and the schedule of when they are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from gymlab.core.types import Array, Histogram

SAMPLES = 512  # of each vector at most: what is drawn of a longer one is fixed, so that it is the same in every run
BINS = 32
Named = tuple[tuple[str, ...], Array]  # some numbers in one array, and what they are called
QUANTILES = {"min": 0.0, "p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}


def sample_places(length: int, most: int = SAMPLES) -> np.ndarray | None:
    """Sorted random indices of a long axis; None where it is short enough to take all.

    Random, not evenly spaced, so that periodic data is not aliased.
    """
    if length <= most:
        return None
    return np.sort(np.random.default_rng(0).choice(length, most, replace=False)).astype(np.int32)


def sample_values(values: Array) -> Array:
    """At most SAMPLES of an array's numbers."""
    flat = values.ravel().astype(jnp.float32)
    places = sample_places(flat.size)
    return flat if places is None else flat[places]


def stacked(vectors: list[Array], blank: float = 0.0) -> Array:
    """(vectors, the longest) numbers, the shorter ones filled up."""
    longest = max(len(vector) for vector in vectors)
    parts = [part for v in vectors for part in (v, jnp.full(longest - len(v), blank, jnp.float32)) if len(part)]
    return jnp.concatenate(parts).reshape(len(vectors), longest)


def histograms(vectors: list[Array], counted: dict[int, Array] | None = None) -> Array:
    """(vectors, 2 + BINS): low, high and counts of each; `counted` masks the numbers of some, by place in the list.

    All counts are 0 where there was nothing to count.
    """
    values = stacked(vectors)
    inside = jnp.asarray(np.arange(values.shape[1]) < np.array([[len(vector)] for vector in vectors]))
    for place, mask in (counted or {}).items():
        inside = inside.at[place, : len(mask)].set(mask)
    low = jnp.min(jnp.where(inside, values, jnp.inf), 1, keepdims=True)
    high = jnp.max(jnp.where(inside, values, -jnp.inf), 1, keepdims=True)
    width = jnp.where(high > low, high - low, 1.0)
    bins = jnp.clip((values - low) / width * BINS, 0, BINS - 1).astype(jnp.int32)
    bins = jnp.where(inside, bins, BINS)
    counts = jnp.sum(bins[:, :, None] == jnp.arange(BINS), 1)
    return jnp.concatenate([low, high, counts.astype(jnp.float32)], 1)


def quantiles(vectors: list[Array]) -> Array:
    """(vectors, QUANTILES) of vectors of at most SAMPLES numbers, interpolated between neighbours."""
    ordered = jnp.sort(stacked(vectors, jnp.inf))
    last = np.array([[len(vector) - 1] for vector in vectors])
    at = np.array(list(QUANTILES.values())) * last
    below = at.astype(np.int32)
    rows = np.arange(len(vectors))[:, None]
    above = np.minimum(below + 1, last)
    share = (at - below).astype(np.float32)
    return ordered[rows, below] * (1 - share) + ordered[rows, above] * share


class HistogramLayout(NamedTuple):
    """The layout of packed statistics and histograms."""

    values: tuple[str, ...] = ()
    histograms: tuple[tuple[str, int], ...] = ()  # name, bins

    def unpack(self, packed: np.ndarray) -> tuple[dict[str, float], dict[str, Histogram]]:
        """Numbers and histograms by name; a histogram of nothing is left out."""
        numbers = packed.tolist()
        values = dict(zip(self.values, numbers, strict=False))
        at = len(self.values)
        found = {}
        for name, bins in self.histograms:
            low, high, *counts = numbers[at : at + 2 + bins]
            if any(counts):
                found[name] = Histogram(low, high, tuple(map(int, counts)))
            at += 2 + bins
        return values, found


UpdateRule = Callable[[int], bool]  # update number, from 1


class HistogramSchedule:
    """Which updates of a run are measured: those of a rule and those requested. It changes no result."""

    def __init__(self, rule: UpdateRule = lambda _: False) -> None:
        self.rule = rule
        self.requested: set[int] = set()

    def ask(self, update: int) -> None:
        """Measure this update too."""
        self.requested.add(update)

    def forget(self, update: int) -> None:
        """Drop requests up to this update."""
        self.requested = {number for number in self.requested if number > update}

    def at(self, first: int, count: int) -> np.ndarray:
        """Whether each of `count` updates after the first `first` of a run is measured."""
        numbers = range(first + 1, first + count + 1)
        return np.array([number in self.requested or self.rule(number) for number in numbers], bool)
