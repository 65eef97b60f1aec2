"""One row for several updates: what it holds, that nothing is lost, and that a resumed run goes on with it exactly."""

import logging
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.core.types import Histogram
from gymlab.features.machine_metrics import MachineMetrics
from gymlab.features.record import Record
from gymlab.features.row_thinning import Thinning
from gymlab.recipes.schema import MetricsSettings
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.session.build import MOST_ROWS, updates_per_row
from gymlab.training.events import (
    Checkpointed,
    Ended,
    HistogramsRequested,
    Measured,
    Recorded,
    Started,
    Stopping,
    Updated,
    UpdateRow,
)
from gymlab.training.update_histograms import HistogramSchedule

pytestmark = pytest.mark.fast


def row(update, histograms=None, **metrics):
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    return UpdateRow(Clock(update, 8 * update, 16 * update, update, update / 4), named, histograms or {})


def test_a_row_holds_means_last_values_sums_and_extremes():
    thinning = Thinning(3)
    rows = [
        row(i, opt__kl=i, roll__return_mean=i, time__update=i, roll__reward_min=-i, roll__reward_max=i, env__restarts=i)
        for i in (1, 2, 3)
    ]
    assert [thinning.add(each) for each in rows[:2]] == [None, None]
    closed = thinning.add(rows[2])
    assert closed.clock == rows[2].clock
    assert closed.metrics == {
        "opt/kl": 2, "roll/return_mean": 3, "time/update": 6, "roll/reward_min": -3, "roll/reward_max": 3,
        "env/restarts": 3,
    }  # fmt: skip
    assert not thinning.open


def test_what_only_some_updates_measured_is_a_mean_over_those_and_nan_counts_only_alone():
    thinning = Thinning(4)
    values = [math.nan, 1.0, math.nan, 3.0]
    for i, value in enumerate(values, 1):
        more = {"opt__entropy": 8.0} if i == 2 else {}
        closed = thinning.add(row(i, opt__explained_variance=value, opt__loss=math.nan, **more))
    assert closed.metrics["opt/explained_variance"] == 2
    assert closed.metrics["opt/entropy"] == 8
    assert math.isnan(closed.metrics["opt/loss"])


def test_the_last_update_closes_the_row_whatever_its_number():
    thinning = Thinning(10, last=12)
    closed = [each for i in range(1, 13) if (each := thinning.add(row(i, opt__kl=float(i)))) is not None]
    assert [each.clock.updates for each in closed] == [10, 12]
    assert [each.metrics["opt/kl"] for each in closed] == [5.5, 11.5]


def test_an_open_row_is_saved_and_goes_on_to_the_last_bit():
    rng = np.random.default_rng(0)
    rows = [row(i, {"h": Histogram(0, 1, (i,))}, opt__kl=float(rng.normal()), time__update=1.0) for i in range(1, 8)]
    whole, first = Thinning(7), Thinning(7)
    for each in rows[:-1]:
        whole.add(each)
    for each in rows[:4]:
        first.add(each)
    second = Thinning(7)
    second.restore(first.state())
    for each in rows[4:-1]:
        second.add(each)
    assert second.state() == whole.state()
    assert "time/update" not in whole.state()["values"]  # differs from machine to machine
    one, two = whole.add(rows[-1]), second.add(rows[-1])
    assert one.metrics["opt/kl"] == two.metrics["opt/kl"]
    assert two.histograms == {"h": Histogram(0, 1, (7,))}
    assert Thinning(7).state() == {}


@pytest.mark.parametrize(("updates", "rows_every", "k"), [(391, "auto", 1), (20_001, "auto", 2), (10**6, "auto", 50)])
def test_how_many_updates_a_row_stands_for_follows_from_the_budget(updates, rows_every, k):
    assert updates_per_row(MetricsSettings(rows_every=rows_every), updates) == k
    assert updates / k <= MOST_ROWS
    assert updates_per_row(MetricsSettings(rows_every=7), updates) == 7


class Told:
    """Stands for the loop: delivers what features emit."""

    interrupted = False

    def __init__(self, *features):
        self.features, self.events = features, []

    def emit(self, event):
        self.events.append(event)
        self.send(event)

    def send(self, event):
        for feature in self.features:
            feature(event, self)


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricsWriter(path) as writer:
        yield SimpleNamespace(path=path, writer=writer)


def stored(store):
    store.writer.commit()
    with MetricsReader(store.path) as reader:
        return {int(u): reader.row(int(u)) for u in reader.read(["updates"])["updates"]}


def updated(*rows):
    return Updated(rows[-1].clock, rows)


def test_an_evaluation_between_two_rows_gets_its_own_and_times_alone_wait_for_the_next(store):
    told = Told(Record(store.writer, 4, last_update=10))
    told.send(Started(Clock()))
    told.send(updated(*(row(i, opt__kl=1.0) for i in (1, 2))))
    told.send(Measured(row(2).clock, {"time/checkpoint": 0.25, "sys/checkpoint_bytes": 10.0}))
    told.send(updated(row(3, opt__kl=1.0)))
    told.send(Measured(row(3).clock, {"eval/greedy_mean": 9.0, "time/evaluate": 0.5}))
    told.send(updated(*(row(i, opt__kl=5.0) for i in (4, 5))))
    told.send(Measured(row(4).clock, {"eval/sampled_mean": 1.0}))
    rows = stored(store)
    assert list(rows) == [3, 4]
    assert {name for name in rows[3] if "/" in name} == {"eval/greedy_mean", "time/evaluate"}
    assert rows[3]["env_steps"] == 48
    assert (rows[4]["opt/kl"], rows[4]["time/checkpoint"], rows[4]["sys/checkpoint_bytes"]) == (2.0, 0.25, 10)
    assert rows[4]["eval/sampled_mean"] == 1.0
    recorded = [event for event in told.events if isinstance(event, Recorded)]
    assert [each.clock.updates for event in recorded for each in event.rows] == [4]


def test_a_run_that_ends_in_between_closes_its_row_and_one_that_is_interrupted_leaves_it_open(store):
    for interrupted, expected in ((True, [4]), (False, [4, 6])):
        record = Record(store.writer, 4, last_update=100)
        told = Told(record)
        told.send(Started(Clock()))
        told.send(updated(*(row(i, {"h": Histogram(0, 1, (i,))}, opt__kl=float(i)) for i in range(1, 7))))
        told.send(Stopping(row(6).clock, "because", interrupted))
        told.send(Ended(row(6).clock, "because", "stopped"))
        rows = stored(store)
        assert list(rows) == expected
        assert record.state()["values"]["opt/kl"] == [(11.0).hex(), 2]
    assert rows[6]["opt/kl"] == 5.5
    with MetricsReader(store.path) as reader:
        assert reader.histogram("h", "updates").counts[:, 0].tolist() == [4, 6]


def test_without_thinning_every_row_is_kept_as_it_is(store):
    told = Told(Record(store.writer))
    told.send(Started(Clock()))
    told.send(updated(row(1, opt__kl=0.1), row(2, opt__kl=math.nan)))
    told.send(Measured(row(1).clock, {"time/sps": 5.0}))
    rows = stored(store)
    assert (rows[1]["opt/kl"], rows[1]["time/sps"]) == (0.1, 5.0)
    assert math.isnan(rows[2]["opt/kl"])
    assert rows[2]["time/record"] >= 0
    with pytest.raises(KeyError):
        told.send(Measured(row(9).clock, {"eval/greedy_mean": 1.0}))


def test_a_counter_that_falls_is_told_and_kept(store, caplog):
    told = Told(Record(store.writer))
    told.send(Started(Clock()))
    with caplog.at_level(logging.WARNING):
        told.send(updated(row(1, opt__kl_stop_count=3.0), row(2, opt__kl_stop_count=2.0)))
    assert "opt/kl_stop_count fell from 3 to 2 in update 2" in caplog.text
    assert stored(store)[2]["opt/kl_stop_count"] == 2


def test_distributions_are_taken_a_fixed_number_of_updates_after_the_row_that_asked():
    for cuts in ([5, 9], [3, 3, 8]):  # however updates are cut into calls
        looks = HistogramSchedule(lambda update: update % 100 == 0)
        told, done = Told(MachineMetrics(looks, longest_call=16)), 0
        told.send(Started(Clock()))
        for count in cuts:
            rows = [row(done + i) for i in range(1, count + 1)]
            done += count
            told.send(updated(*rows))
            for each in rows:
                if each.clock.updates == 2:
                    told.send(HistogramsRequested(each.clock))
        assert looks.requested == {18}
        assert np.flatnonzero(looks.at(done, 100)).tolist() == [18 - done - 1, 100 - done - 1]
        assert told.features[0].state() == {"histograms_requested": [18]}
        told.send(updated(row(18)))
        assert told.features[0].state() == {}


def test_the_machine_is_measured_now_and_then(monkeypatch):
    monkeypatch.setattr("gymlab.features.machine_metrics.SAMPLE_SECONDS", 0.0)
    told = Told(MachineMetrics())
    told.send(Started(Clock()))
    busy = time.process_time() + 0.05  # the system counts in hundredths of a second
    while time.process_time() < busy:
        pass
    told.send(updated(row(1)))
    told.send(Checkpointed(row(1).clock, None, ("last",), 0.5, 100))
    machine, checkpoint = (event.metrics for event in told.events)
    assert machine["sys/rss"] > 10**7
    assert machine["sys/cpu"] > 0
    assert machine["time/sps_mean"] == 16 / 0.25
    assert checkpoint == {"time/checkpoint": 0.5, "sys/checkpoint_bytes": 100.0}
    assert "sys/gpu_load" not in machine
