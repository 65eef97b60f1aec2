"""Metrics computed over all updates of a run: sums and means, before and after a checkpoint."""

import pytest

from gymlab.metrics.run_totals import RunTotals

pytestmark = pytest.mark.fast


def rows(totals: RunTotals, stops: list[float], first: int = 1) -> list[dict[str, float]]:
    added = [{"opt/kl_stop": stop} for stop in stops]
    for updates, row in enumerate(added, first):
        totals.add(row, updates)
    return added


def test_the_count_is_a_sum_and_the_fraction_a_mean_over_the_run():
    added = rows(RunTotals(), [1.0, 0.0, 1.0])
    assert [row["opt/kl_stop_count"] for row in added] == [1, 1, 2]
    assert [row["opt/kl_stop_fraction"] for row in added] == [1, 1 / 2, 2 / 3]


def test_rows_without_the_source_get_nothing():
    row = {"opt/loss": 1.0}
    RunTotals().add(row, 1)
    assert row == {"opt/loss": 1.0}


def test_totals_continue_from_a_checkpoint():
    totals = RunTotals()
    rows(totals, [1.0, 1.0])
    assert totals.state() == {"opt/kl_stop": 2.0}
    restored = RunTotals()
    restored.restore({"run_totals": totals.state()})
    (row,) = rows(restored, [0.0], first=3)
    assert row == {"opt/kl_stop": 0.0, "opt/kl_stop_count": 2.0, "opt/kl_stop_fraction": 2 / 3}


def test_zero_totals_leave_no_state():
    totals = RunTotals()
    rows(totals, [0.0])
    assert totals.state() == {}
