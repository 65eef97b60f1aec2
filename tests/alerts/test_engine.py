"""The alert engine: hysteresis, counting, late rows, resuming."""

import json
import math

import gymnasium
import pytest

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Alert, AlertEngine, alerts_json, judge_rows
from gymlab.alerts.registry import rules_for
from gymlab.metrics.bounds import Context
from tests.alerts.rows import RUN, SETTINGS, fold, history, in_parts, own

pytestmark = pytest.mark.fast


def test_an_alert_is_raised_by_k_of_n_failing_rows_and_cleared_by_passing_ones():
    #  failing rows:   1    1    0    0    0    1    0    1: cleared by three passing ones, raised again by two of three
    assert fold(AlertEngine(own(), RUN), [0.9, 0.9, 0.1, 0.1, 0.1, 0.9, 0.1, 0.9]) == ".+..-..+"


def test_an_alert_counts_failing_rows_and_keeps_the_first_and_the_last():
    watch = AlertEngine(own(), RUN)
    fold(watch, [0.1, 0.9, 0.9, 0.1, 0.8, math.nan])
    (alert,) = watch.alerts()
    assert (alert.count, alert.judged, alert.share) == (3, 5, 0.6)  # NaN is no value: not judged
    assert (alert.first.updates, alert.last.updates, alert.last.env_steps) == (2, 5, 500)
    assert alert.evidence == "opt/entropy is 0.8: above 0.5"
    assert Alert.from_json(json.loads(json.dumps(alert.as_json()))) == alert


def test_nothing_is_counted_before_the_warm_up_is_over():
    watch = AlertEngine(own(after="4%"), RUN)
    assert fold(watch, [0.9] * 6) == "....+."
    assert watch.alerts()[0].judged == 3


def test_alerts_are_sorted_by_id_everywhere():
    rules = [rule for name in ("zebra", "aardvark", "mole") for rule in own(id=name)]
    watch = AlertEngine(rules, RUN)
    fold(watch, [0.9] * 3)
    sorted_ids = ["aardvark", "mole", "zebra"]
    assert [alert.id for alert in watch.alerts()] == sorted_ids
    assert [alert["id"] for alert in alerts_json(reversed(watch.alerts()))["alerts"]] == sorted_ids


@pytest.mark.parametrize("seed", range(3))
def test_a_live_run_and_its_store_come_to_the_same(seed):
    rows = list(history(seed))
    live = in_parts(AlertEngine(rules_for(["ppo"]), RUN), rows)
    stored = judge_rows(rules_for(["ppo"]), RUN, [(at, early | late) for at, early, late in rows])
    assert live.alerts() == stored.alerts()
    assert len(live.alerts()) > 3
    assert live.state()["rules"] == stored.state()["rules"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cut", [None, 50])
def test_an_evaluation_that_comes_an_interval_late_is_judged_by_its_own_row(seed, cut):
    rows, owed = list(history(seed)), None
    watch = AlertEngine(rules_for(["ppo"]), RUN)
    for at, early, late in rows:
        watch.fold(at, early)
        if late:  # as beside training: the last one's result comes where the next one is asked for
            if owed is not None:
                watch.fold(*owed)
            owed = at, late
            watch.expect_late(at.updates)
        if at.updates == cut:  # killed and gone on with
            saved = json.loads(json.dumps(watch.state()))
            watch = AlertEngine(rules_for(["ppo"]), RUN)
            watch.restore(saved)
    watch.fold(*owed)
    stored = judge_rows(rules_for(["ppo"]), RUN, [(at, early | late) for at, early, late in rows])
    assert watch.state()["rules"] == stored.state()["rules"]
    assert watch.alerts() == stored.alerts()


@pytest.mark.parametrize("cut", [1, 41, 60, 80])
def test_a_watch_goes_on_from_its_state_as_if_nothing_had_happened(cut):
    rows = list(history(7))
    whole = in_parts(AlertEngine(rules_for(["ppo"]), RUN), rows)
    first = in_parts(AlertEngine(rules_for(["ppo"]), RUN), rows[:cut])
    at, early, late = rows[cut]
    first.fold(at, early)  # what is evaluated comes after the checkpoint
    second = AlertEngine(rules_for(["ppo"]), RUN)
    second.restore(json.loads(json.dumps(first.state())))
    if late:
        second.fold(at, late)
    assert in_parts(second, rows[cut + 1 :]).state() == whole.state()
    assert second.alerts() == whole.alerts()


def test_what_is_found_about_the_machine_is_no_part_of_the_state():
    watch = AlertEngine(rules_for(["ppo"]), RUN)
    fold(watch, [1000.0] * 12 + [10.0] * 12, metric="time/sps")
    assert [alert.id for alert in watch.alerts()] == ["speed-drop"]
    assert "speed-drop" not in watch.state()["rules"]
    assert "time/sps" not in watch.state()["row"]


def test_of_very_many_updates_a_thousand_are_judged_and_every_evaluation():
    long = RunContext(Context(gymnasium.spaces.Discrete(2), settings={**SETTINGS, "budget": "1M env_steps"}))
    watch = AlertEngine(rules_for(["ppo"]), long)
    assert long.every == 10
    for at, early, late in history(0):
        watch.fold(at, early | (late and {**late, "eval/sampled_mean": -100.0}))
    state = watch.state()["rules"]
    assert state["kl-high"]["judged"] == 12  # updates 1, 11, 21, ...
    assert state["eval-below-training"]["judged"] == 5  # updates 20, 40, ..., 100
