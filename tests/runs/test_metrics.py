"""The metric store: what goes in comes out, exactly."""

from __future__ import annotations

import csv
import math
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gymlab.core.errors import RunError, UserError
from gymlab.core.types import Histogram
from gymlab.runs import failpoints
from gymlab.runs.metrics_reader import CurveReader, MetricsReader
from gymlab.runs.metrics_writer import MetricsWriter

pytestmark = pytest.mark.fast


def row(update: int, **metrics: float | None) -> dict[str, float | None]:
    clocks = {
        "updates": update,
        "vec_steps": update * 32,
        "env_steps": update * 256,
        "episodes": 2 * update,
        "gradient_steps": 8 * update,
    }
    return {**clocks, "seconds": update / 7, **{name.replace("__", "/"): value for name, value in metrics.items()}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.db"


@pytest.fixture
def writer(path: Path) -> Iterator[MetricsWriter]:
    with MetricsWriter(path) as writer:
        yield writer


def test_rows_come_back_exactly_with_their_clocks(path: Path, writer: MetricsWriter) -> None:
    writer.append([row(1, roll__return_mean=0.1 + 0.2), row(2, roll__return_mean=1 / 3)])
    writer.commit()
    with MetricsReader(path) as reader:
        assert reader.names() == ["roll/return_mean"]
        read = reader.read()
        np.testing.assert_array_equal(read["vec_steps"], [32, 64])
        np.testing.assert_array_equal(read["roll/return_mean"], [0.1 + 0.2, 1 / 3])
        assert reader.row(1) == row(1, roll__return_mean=0.1 + 0.2)
        assert reader.last() == row(2, roll__return_mean=1 / 3)
        np.testing.assert_array_equal(reader.read(["roll/return_mean"], clock="seconds")["seconds"], [1 / 7, 2 / 7])


def test_the_metrics_of_tasks_are_columns_and_curves_of_their_own(path: Path, writer: MetricsWriter) -> None:
    names = ["roll/return_mean", "roll/return_mean@a", "roll/return_mean@b"]
    writer.append([row(update) | {name: float(place) for place, name in enumerate(names)} for update in (1, 2)])
    writer.commit()
    with CurveReader(path) as reader:
        assert reader.names() == names
        curves = reader.curves(names)
        assert [curve.name for curve in curves.values()] == names
        assert [curve.y.tolist() for curve in curves.values()] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.floats())
def test_any_float_survives(value: float, tmp_path: Path) -> None:
    path = tmp_path / "any.db"
    path.unlink(missing_ok=True)
    with MetricsWriter(path) as writer:
        writer.append([row(1, x=value)])
    with MetricsReader(path) as reader:
        (back,) = reader.read(["x"])["x"]
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_nan_is_told_from_not_measured_and_infinities_survive(path: Path, writer: MetricsWriter) -> None:
    values = [math.nan, None, math.inf, -math.inf, 5e-324]
    writer.append([row(update, x=value) for update, value in enumerate(values, 1)])
    writer.append([row(6, y=1.0)])
    writer.commit()
    with MetricsReader(path) as reader:
        clock, x = reader.series("x", clock="updates")
        np.testing.assert_array_equal(clock, [1, 3, 4, 5])
        np.testing.assert_array_equal(x, [math.nan, math.inf, -math.inf, 5e-324])
        assert math.isnan(reader.row(1)["x"])
        assert "x" not in reader.row(2)
        assert "x" not in reader.row(6)
        np.testing.assert_array_equal(reader.read(["x"])["x"], [math.nan, math.nan, *values[2:], math.nan])


def test_numpy_numbers_are_stored_as_what_they_are(path: Path, writer: MetricsWriter) -> None:
    writer.append([row(1, a=np.float32(0.1), b=np.int64(3), c=np.float32(math.nan), d=np.bool_(True))])  # type: ignore[arg-type]
    writer.commit()
    with MetricsReader(path) as reader:
        back = reader.row(1)
    assert (back["a"], back["b"], back["d"]) == (float(np.float32(0.1)), 3.0, 1.0)
    assert math.isnan(back["c"])


def test_columns_are_added_as_names_appear_whatever_their_spelling(path: Path, writer: MetricsWriter) -> None:
    awkward = ['a"; DROP TABLE updates; --', "select", "roll/obs[0]/mean", "é"]
    writer.append([row(1)])
    writer.commit()
    for update, name in enumerate(awkward, 2):
        writer.append([{**row(update), name: float(update)}])
    writer.commit()
    with MetricsReader(path) as reader:
        assert reader.names() == awkward
        assert reader.row(2)[awkward[0]] == 2.0
        assert len(reader.read()["vec_steps"]) == 5


def test_values_can_arrive_after_their_row(path: Path, writer: MetricsWriter) -> None:
    writer.append([row(1, a=1.0), row(2, a=2.0)])
    writer.amend(2, {"eval/return": 9.0})  # not yet committed, and a new column
    writer.commit()
    writer.amend(1, {"a": math.nan, "late": 3.0})  # committed
    writer.amend(1, {"late": 4.0})
    writer.commit()
    with MetricsReader(path) as reader:
        assert reader.row(2)["eval/return"] == 9.0
        assert math.isnan(reader.row(1)["a"])
        assert reader.row(1)["late"] == 4.0
    with pytest.raises(KeyError, match="update 3"):
        writer.amend(3, {"a": 1.0})


def test_cutting_forgets_later_rows_committed_or_not(path: Path, writer: MetricsWriter) -> None:
    writer.append(row(update, a=float(update)) for update in range(1, 6))
    writer.commit()
    writer.append(row(update, a=float(update)) for update in range(6, 9))
    writer.amend(4, {"a": -4.0})
    writer.cut_after(4)
    writer.append([row(5, a=50.0)])
    writer.commit()
    with MetricsReader(path) as reader:
        np.testing.assert_array_equal(reader.read(["a"])["a"], [1, 2, 3, -4, 50])


def test_a_row_is_written_once(path: Path, writer: MetricsWriter) -> None:
    writer.append([row(1)])
    with pytest.raises(ValueError, match="update 1"):
        writer.append([row(1)])
    writer.commit()
    writer.append([row(1)])
    with pytest.raises(RunError, match="UNIQUE"):
        writer.commit()
    writer.cut_after(0)


def test_names_that_differ_only_in_case_are_refused(writer: MetricsWriter) -> None:
    with pytest.raises(ValueError, match="case"):
        writer.append([{**row(1), "opt/kl": 1.0, "opt/KL": 2.0}])


def test_a_row_without_a_clock_is_refused(writer: MetricsWriter) -> None:
    writer.append([{"updates": 1, "vec_steps": 1, "env_steps": 1, "seconds": 0.0}])
    with pytest.raises(RunError, match="episodes"):
        writer.commit()
    writer.cut_after(0)


def test_the_store_goes_on_where_it_stopped(path: Path) -> None:
    with MetricsWriter(path) as writer:
        writer.append([row(1, a=1.0)])
    assert os.listdir(path.parent) == ["metrics.db"]
    with MetricsWriter(path) as writer:
        writer.append([row(2, b=2.0, a=3.0)])
    with MetricsReader(path) as reader:
        assert reader.names() == ["a", "b"]
        np.testing.assert_array_equal(reader.read(["a"])["a"], [1, 3])


def test_csv_values_equal_the_stored_ones(path: Path, writer: MetricsWriter, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [row(u, a=float(rng.normal() * 10.0 ** rng.integers(-300, 300))) for u in range(1, 200)]
    writer.append([*rows, row(200, a=math.nan), row(201, a=math.inf), row(202, b=1.0)])
    writer.commit()
    with MetricsReader(path) as reader:
        assert reader.to_csv(tmp_path / "out.csv") == 202
        stored = [reader.row(update) for update in range(1, 203)]
    with (tmp_path / "out.csv").open(newline="") as file:
        back = [{name: float(text) for name, text in line.items() if text} for line in csv.DictReader(file)]
    np.testing.assert_equal(back, stored)


def test_unknown_metrics_are_named(path: Path, writer: MetricsWriter) -> None:
    writer.append([row(1, roll__return_mean=1.0)])
    writer.commit()
    with MetricsReader(path) as reader, pytest.raises(UserError, match="did you mean 'roll/return_mean'"):
        reader.read(["roll/retrun_mean"])


def test_an_empty_store_reads_empty(path: Path, writer: MetricsWriter) -> None:
    with MetricsReader(path) as reader:
        assert reader.last() == {}
        assert reader.names() == []
        assert len(reader.read()["vec_steps"]) == 0
        assert [len(part) for part in reader.series("episodes")] == [0, 0]


def test_missing_and_damaged_stores_are_told(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no metrics"):
        MetricsReader(tmp_path / "none.db")
    (tmp_path / "bad.db").write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(RunError, match="not a database"):
        MetricsReader(tmp_path / "bad.db")


def test_a_foreign_value_is_not_taken_for_a_number(path: Path) -> None:
    with MetricsWriter(path) as writer:
        writer.append([row(1, a=1.0)])
    db = sqlite3.connect(path)
    db.execute("UPDATE updates SET a = 'rm -rf'")
    db.commit()
    db.close()
    with MetricsReader(path) as reader, pytest.raises(RunError, match="rm -rf"):
        reader.last()


@pytest.mark.parametrize("name", ["metrics.db", "metrics.db-wal", "metrics.db-shm", "metrics.db-journal"])
def test_a_linked_store_is_neither_read_nor_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "run").mkdir()
    outside = tmp_path / "outside.db"
    MetricsWriter(outside).close()
    before = outside.read_bytes()
    if name != "metrics.db":
        MetricsWriter(tmp_path / "run" / "metrics.db").close()
    (tmp_path / "run" / name).symlink_to(outside)
    for kind in (MetricsWriter, MetricsReader):
        with pytest.raises(RunError, match="link"):
            kind(tmp_path / "run" / "metrics.db")
    assert outside.read_bytes() == before


def test_a_full_disk_loses_nothing_that_can_be_written_later(
    path: Path, writer: MetricsWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.append([row(1, a=1.0)])
    writer.commit()
    writer.append([row(2, a=2.0, new=1.0)])
    monkeypatch.setattr(failpoints, "_passed", type(failpoints._passed)())
    monkeypatch.setenv("GYMLAB_FAILPOINT", "mid_commit:1:enospc")
    with pytest.raises(OSError, match="space"):
        writer.commit()
    with MetricsReader(path) as reader:
        assert reader.last()["updates"] == 1
    writer.commit()
    with MetricsReader(path) as reader:
        assert reader.last() == row(2, a=2.0, new=1.0)


def test_rows_become_visible_by_themselves(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymlab.runs.metrics_writer._COMMIT_SECONDS", -1.0)
    writer = MetricsWriter(path)
    writer.append([row(1)])
    with MetricsReader(path) as reader:
        assert reader.last()["updates"] == 1
    writer.close()


def test_too_many_metrics_are_told(writer: MetricsWriter) -> None:
    many: dict[str, Any] = {f"m{i}": 1.0 for i in range(2000)}
    with pytest.raises(RunError, match="more than"):
        writer.append([{**row(1), **many}])


def bars(*counts: int, low: float = -1.0, high: float = 1.0) -> Histogram:
    return Histogram(low, high, counts)


def test_histograms_come_back_with_their_clock_edges_and_counts(path: Path, writer: MetricsWriter) -> None:
    writer.append([row(1, a=1.0), row(2, a=1.0), row(3, a=1.0)])
    writer.add_histograms(1, {"roll/return_hist": bars(1, 2), "opt/values_hist": bars(0, 70_000, 5)})
    writer.add_histograms(3, {"roll/return_hist": bars(300, 0, low=0.5, high=2.5)})
    writer.commit()
    with MetricsReader(path) as reader:
        assert reader.histogram_names() == ["opt/values_hist", "roll/return_hist"]
        found = reader.histogram("roll/return_hist", clock="updates")
        np.testing.assert_array_equal(found.at, [1, 3])
        np.testing.assert_array_equal(found.edges, [[-1, 0, 1], [0.5, 1.5, 2.5]])
        np.testing.assert_array_equal(found.counts, [[1, 2], [300, 0]])
        np.testing.assert_array_equal(found.shares, [[1 / 3, 2 / 3], [1, 0]])
        np.testing.assert_array_equal(reader.histogram("opt/values_hist").counts, [[0, 70_000, 5]])
        assert reader.names() == ["a"]  # rows and exports do not know of them
        with pytest.raises(UserError, match="did you mean 'roll/return_hist'"):
            reader.histogram("roll/retrun_hist")


def test_histograms_are_cut_with_their_rows(path: Path, writer: MetricsWriter) -> None:
    writer.append(row(update, a=1.0) for update in range(1, 5))
    for update in (1, 2, 3):
        writer.add_histograms(update, {"h": bars(update)})
    writer.commit()
    writer.add_histograms(4, {"h": bars(4)})
    writer.cut_after(2)
    with MetricsReader(path) as reader:
        np.testing.assert_array_equal(reader.histogram("h", "updates").at, [1, 2])
    writer.append([row(3, a=1.0)])
    writer.add_histograms(3, {"h": bars(30)})
    writer.commit()
    with MetricsReader(path) as reader:
        np.testing.assert_array_equal(reader.histogram("h", "updates").counts[:, 0], [1, 2, 30])


def test_a_row_and_its_histograms_are_there_together_or_not_at_all(
    path: Path, writer: MetricsWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.append([row(1, a=1.0)])
    writer.add_histograms(1, {"h": bars(1)})
    monkeypatch.setattr(failpoints, "_passed", type(failpoints._passed)())
    monkeypatch.setenv("GYMLAB_FAILPOINT", "mid_commit:1:enospc")
    with pytest.raises(OSError, match="space"):
        writer.commit()
    with MetricsReader(path) as reader:
        assert (reader.last(), reader.histogram_names()) == ({}, [])
    writer.commit()
    with MetricsReader(path) as reader:
        assert (reader.last()["updates"], reader.histogram_names()) == (1, ["h"])


def test_a_store_from_before_histograms_has_none(path: Path) -> None:
    with MetricsWriter(path) as writer:
        writer.append([row(1, a=1.0)])
    db = sqlite3.connect(path)
    db.execute("DROP TABLE histograms")
    db.commit()
    db.close()
    with MetricsReader(path) as reader:
        assert reader.histogram_names() == []
    with MetricsWriter(path) as writer:  # which goes on with it all the same
        writer.append([row(2, a=1.0)])
        writer.add_histograms(2, {"h": bars(1)})
    with MetricsReader(path) as reader:
        assert reader.histogram_names() == ["h"]


@pytest.mark.parametrize(
    "damage", ["counts = 'x'", "counts = x'0700'", "counts = x'020000ff'", "low = 'nan'", "high = 9e999"]
)
def test_what_is_no_histogram_is_refused(path: Path, damage: str) -> None:
    with MetricsWriter(path) as writer:
        writer.append([row(1, a=1.0)])
        writer.add_histograms(1, {"h": bars(1, 2)})
    db = sqlite3.connect(path)
    db.execute(f"UPDATE histograms SET {damage}")
    db.commit()
    db.close()
    with MetricsReader(path) as reader, pytest.raises(RunError, match="histogram"):
        reader.histogram("h")
