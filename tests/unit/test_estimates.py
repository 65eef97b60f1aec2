"""Interquartile means and bootstrap intervals against numbers worked out by hand."""

import numpy as np
import pytest

from gymlab.core.estimates import difference, estimate, iqm, mean, probability_of_improvement, stratified


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert iqm([1, 2, 3, 4, 5, 6, 7, 100]) == 4.5  # 3 4 5 6
    assert iqm([10, 0, 0, 0, 5]) == pytest.approx(5 / 3)  # one cut from each end of 0 0 0 5 10
    assert iqm([3.0]) == 3.0
    assert iqm([[4, 1, 3, 2], [8, 8, 0, 8]]).tolist() == [2.5, 8.0]
    with pytest.raises(ValueError, match="no numbers"):
        iqm([])


def test_the_interval_of_a_mean_is_the_normal_one_where_that_holds():
    values = np.random.default_rng(1).normal(10, 2, 400)
    found = estimate(values, mean)
    half = 1.96 * values.std() / 20
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.03)
    assert found.high == pytest.approx(values.mean() + half, abs=0.03)


def test_an_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = [
        found.low <= 0 <= found.high
        for found in (estimate(rng.normal(size=30), mean, resamples=500, seed=i) for i in range(300))
    ]
    assert 0.90 <= np.mean(hits) <= 0.98  # 95 % less the percentile bootstrap's known shortfall at 30 numbers


def test_resampling_within_groups_leaves_no_spread_where_groups_have_none():
    assert stratified([[1, 1, 1], [9, 9, 9]], mean) == (5.0, 5.0, 5.0)
    pooled = estimate([1, 1, 1, 9, 9, 9], mean)
    assert pooled.low < 5 < pooled.high


def test_a_difference_and_how_often_one_set_beats_the_other():
    found = difference([5, 6, 7, 8], [1, 2, 3, 4], mean)
    assert found.value == 4
    assert 2 < found.low < 4 < found.high < 6
    assert probability_of_improvement([1, 2], [1, 0]) == 0.875  # pairs: tie, win, win, win
    assert estimate([1, 2, 3], seed=3) == estimate([1, 2, 3], seed=3)
