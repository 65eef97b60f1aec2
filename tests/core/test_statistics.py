"""Interquartile means and bootstrap intervals against numbers worked out by hand."""

import tracemalloc

import numpy as np
import pytest

from gymlab.core.statistics import difference, estimate, iqm, mean, probability_of_improvement, stratified

pytestmark = pytest.mark.fast


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert iqm([1, 2, 3, 4, 5, 6, 7, 100]) == 4.5  # 3 4 5 6
    assert iqm([10, 0, 0, 0, 5]) == pytest.approx(5 / 3)  # one cut from each end of 0 0 0 5 10
    assert iqm([3.0]) == 3.0
    assert iqm([[4, 1, 3, 2], [8, 8, 0, 8]]).tolist() == [2.5, 8.0]
    with pytest.raises(ValueError, match="at least one number"):
        iqm([])


def test_the_bootstrap_interval_of_a_mean_matches_the_normal_interval():
    values = np.random.default_rng(1).normal(10, 2, 400)
    found = estimate(values, mean)
    half = 1.96 * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.03)
    assert found.high == pytest.approx(values.mean() + half, abs=0.03)


def test_an_interval_covers_the_true_value_at_its_stated_level():
    rng = np.random.default_rng(0)
    hits = [
        found.low <= 0 <= found.high
        for found in (estimate(rng.normal(size=30), mean, resamples=500, seed=i) for i in range(300))
    ]
    assert 0.90 <= np.mean(hits) <= 0.98  # 95 % less the percentile bootstrap's known shortfall at 30 numbers


def test_many_numbers_are_resampled_in_little_memory():
    values = np.random.default_rng(2).normal(size=50_000)
    tracemalloc.start()
    found = estimate(values, mean, resamples=1000)  # 400 MB of indices at once
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6
    assert found.high - found.low == pytest.approx(2 * 1.96 / np.sqrt(50_000), rel=0.15)


def test_resampling_within_groups_leaves_no_spread_where_groups_have_none():
    assert stratified([[1, 1, 1], [9, 9, 9]], mean) == (5.0, 5.0, 5.0)
    pooled = estimate([1, 1, 1, 9, 9, 9], mean)
    assert pooled.low < 5 < pooled.high


def test_difference_and_probability_of_improvement_of_two_sets():
    found = difference([5, 6, 7, 8], [1, 2, 3, 4], mean)
    assert found.value == 4
    assert 2 < found.low < 4 < found.high < 6
    assert probability_of_improvement([1, 2], [1, 0]) == 0.875  # pairs: tie, win, win, win
    assert estimate([1, 2, 3], seed=3) == estimate([1, 2, 3], seed=3)


def test_published_interquartile_means():
    # Wikipedia, "Interquartile mean": twelve observations, and nine.
    assert iqm([5, 8, 4, 38, 8, 6, 9, 7, 7, 3, 1, 6]) == 6.5
    assert iqm([1, 3, 5, 7, 9, 11, 13, 15, 17]) == 9


def test_published_bootstrap_of_the_mouse_data():
    # Efron and Tibshirani, An Introduction to the Bootstrap (1993), tables 2.1 and 2.2: means 86.86 and 56.22, and a
    # standard error of the treated mean of 23.36 as the number of resamples grows.
    treated, control = [94, 197, 16, 38, 99, 141, 23], [52, 104, 146, 10, 51, 30, 40, 27, 46]
    within_one_error = estimate(treated, mean, level=0.6827, resamples=50_000)
    assert within_one_error.value == pytest.approx(86.86, abs=0.005)
    assert (within_one_error.high - within_one_error.low) / 2 == pytest.approx(23.36, rel=0.03)
    found = difference(treated, control, mean)
    assert found.value == pytest.approx(30.63, abs=0.01)
    assert found.low < 0 < found.high  # as in the book: no difference is shown


def test_a_published_mann_whitney_count():
    # Wikipedia, "Mann-Whitney U test": finishing order T H H H H H T T T T T H, six of each, U is 11 for the tortoises.
    order = "THHHHHTTTTTH"
    speed = {animal: [len(order) - place for place, who in enumerate(order) if who == animal] for animal in "TH"}
    assert probability_of_improvement(speed["T"], speed["H"]) * 36 == pytest.approx(11)
    assert probability_of_improvement(speed["H"], speed["T"]) * 36 == pytest.approx(25)
