"""Downsampled series: the same numbers as the rows; only new rows are read again."""

import math

import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.runs.metrics_reader import CurveReader
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.store import RunStore
from gymlab.web.charts.downsampled_series import MOST_POINTS, RunSeries


def rows(first, last, **more):
    return [
        Clock(u, 4 * u, 8 * u, u, u / 2)._asdict() | {"opt/kl": float(u % 7), **more} for u in range(first, last + 1)
    ]


@pytest.fixture
def run(tmp_path):
    store = RunStore.create(tmp_path / "runs", "one", name="x")
    with store:
        store.write_manifest({"recipe": "x"})
        store.start()
        yield store.paths


def test_a_stretch_has_the_mean_and_the_extremes_of_its_rows(run):
    with MetricsWriter(run.metrics) as writer:
        writer.append(rows(1, 10))
    with CurveReader(run.metrics) as reader:
        found = reader.buckets(["opt/kl", "no/such"], 4, 0)
    assert found.bucket.tolist() == [0, 1, 2]  # updates 1-3, 4-7, 8-10
    assert found.values["opt/kl"].tolist() == [[2, 1, 3], [3.75, 0, 6], [2, 1, 3]]
    assert found.clocks["env_steps"].tolist() == [24, 56, 80]
    assert np.isnan(found.values["no/such"]).all()


def test_what_is_no_number_is_left_out(run):
    with MetricsWriter(run.metrics) as writer:
        writer.append(rows(1, 2) + rows(3, 3, **{"opt/kl": math.nan}) + rows(4, 4, **{"opt/kl": math.inf}))
    series = RunSeries(run)
    series.refresh(["opt/kl"])
    assert series.trace("opt/kl", "updates").y.tolist() == [1, 2]
    with CurveReader(run.metrics) as reader:
        assert reader.buckets(["opt/kl"], 8, 0).values["opt/kl"].tolist() == [[1.5, 1, 2]]


def test_new_rows_are_read_and_old_ones_are_not(run):
    series = RunSeries(run)
    with MetricsWriter(run.metrics) as writer:
        writer.append(rows(1, 500))
        writer.commit()
        series.refresh(["opt/kl"])
        assert series.rows_read == 500
        series.refresh(["opt/kl"])
        assert series.rows_read == 500
        writer.append(rows(501, 510))
        writer.commit()
        series.refresh(["time/progress"])  # somebody else was here first
        series.rows_read = 500
        series.refresh(["opt/kl"])
        assert series.rows_read == 511  # the last one again: values are added to a row until the next begins
        assert series.trace("opt/kl", "updates").y.tolist() == [u % 7 for u in range(1, 511)]


def test_an_evaluation_that_comes_late_is_seen(run):
    series = RunSeries(run)
    with MetricsWriter(run.metrics) as writer:
        writer.append(rows(1, 20))
        writer.amend(5, {"eval/greedy_mean": 50.0})
        writer.commit()
        series.refresh(["opt/kl", "eval/greedy_mean"])
        writer.append(rows(21, 30))
        writer.amend(10, {"eval/greedy_mean": 100.0})
        writer.commit()
        series.refresh(["opt/kl", "eval/greedy_mean"])
    trace = series.trace("eval/greedy_mean", "updates")
    assert (trace.x.tolist(), trace.y.tolist()) == ([5, 10], [50, 100])


def test_a_run_that_was_cut_back_is_read_anew(run):
    series = RunSeries(run)
    with MetricsWriter(run.metrics) as writer:
        writer.append(rows(1, 50))
        writer.commit()
        series.refresh(["opt/kl"])
        writer.cut_after(20)
        writer.append(rows(21, 30, **{"opt/kl": 99.0}))
        writer.commit()
        series.refresh(["opt/kl"])
    assert series.trace("opt/kl", "updates").y.tolist() == [u % 7 for u in range(1, 21)] + [99.0] * 10


def test_a_long_run_is_a_few_hundred_points_that_miss_no_spike(run):
    with MetricsWriter(run.metrics) as writer:
        writer.append(rows(1, 20_000))
        writer.amend(12_345, {"opt/kl": 1000.0})
    series = RunSeries(run)
    assert series.preview(["opt/kl"])  # at once, though not everything
    assert (series.trace("opt/kl", "seconds").x[[0, -1]] == [0.5, 10_000]).all()
    series.refresh(["opt/kl"])
    assert not series.preview(["opt/kl"])
    trace = series.trace("opt/kl", "seconds")
    assert MOST_POINTS / 4 < len(trace.x) <= MOST_POINTS
    assert trace.high.max() == 1000
    assert trace.x[-1] == 10_000
