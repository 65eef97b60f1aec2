"""Estimates from few numbers: the interquartile mean, bootstrap intervals, and how two sets of runs compare.

The interquartile mean and stratified bootstrap follow Agarwal et al. 2021 (arXiv 2108.13264).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Statistic = Callable[[Numbers], Numbers]  # of the last axis
_BLOCK = 2**21  # numbers drawn at a time, which bounds the memory


class Estimate(NamedTuple):
    """A value with its bootstrap confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


def iqm(values: npt.ArrayLike) -> Numbers:
    """The mean of the middle half, over the last axis: a quarter of the numbers is cut from each end, rounded down."""
    ordered = np.sort(np.asarray(values, np.float64), axis=-1)
    count = ordered.shape[-1]
    if not count:
        raise ValueError("the interquartile mean needs at least one number")
    cut = count // 4
    return np.asarray(ordered[..., cut : count - cut].mean(axis=-1))


def mean(values: npt.ArrayLike) -> Numbers:
    return np.asarray(np.mean(np.asarray(values, np.float64), axis=-1))


def estimate(
    values: npt.ArrayLike, statistic: Statistic = iqm, *, level: float = 0.95, resamples: int = 5000, seed: int = 0
) -> Estimate:
    """A statistic of one set of numbers with its percentile bootstrap interval."""
    return stratified([np.asarray(values, np.float64)], statistic, level=level, resamples=resamples, seed=seed)


def stratified(
    groups: Sequence[npt.ArrayLike],
    statistic: Statistic = iqm,
    *,
    level: float = 0.95,
    resamples: int = 5000,
    seed: int = 0,
) -> Estimate:
    """A statistic of several groups (tasks) pooled; each is resampled within itself, so none gains weight by chance."""
    strata = [np.asarray(group, np.float64) for group in groups]
    draws = _resampled(strata, statistic, resamples, np.random.default_rng(seed))
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(statistic(np.concatenate(strata))), float(low), float(high))


def difference(
    ours: npt.ArrayLike,
    theirs: npt.ArrayLike,
    statistic: Statistic = iqm,
    *,
    level: float = 0.95,
    resamples: int = 5000,
    seed: int = 0,
) -> Estimate:
    """The difference of a statistic between two sets, with both resampled for the interval."""
    one = np.asarray(ours, np.float64)
    other = np.asarray(theirs, np.float64)
    rng = np.random.default_rng(seed)
    draws = _resampled([one], statistic, resamples, rng) - _resampled([other], statistic, resamples, rng)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(statistic(one) - statistic(other)), float(low), float(high))


def probability_of_improvement(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> float:
    """The share of pairs in which a run of one set beats a run of the other; a tie counts half (Mann-Whitney U)."""
    one = np.asarray(ours, np.float64)[:, None]
    other = np.asarray(theirs, np.float64)[None, :]
    return float(np.mean((one > other) + 0.5 * (one == other)))


def _resampled(strata: Sequence[Numbers], statistic: Statistic, count: int, rng: np.random.Generator) -> Numbers:
    """The statistic of `count` resamples."""
    at_once = max(1, _BLOCK // sum(len(group) for group in strata))
    found = []
    for done in range(0, count, at_once):
        rows = min(at_once, count - done)
        drawn = [group[rng.integers(0, len(group), (rows, len(group)))] for group in strata]
        found.append(statistic(np.concatenate(drawn, axis=-1)))
    return np.concatenate(found)
