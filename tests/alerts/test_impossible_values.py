"""Bounds of metrics: what is impossible is an alert, what a wrapper or a resume explains is not."""

import gymnasium
import pytest

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.alerts.impossible_values import BOUNDS
from gymlab.metrics.bounds import Context
from tests.alerts.rows import RUN, SETTINGS, clock, fold

pytestmark = pytest.mark.fast

BOX = gymnasium.spaces.Box(-1.0, 1.0, (3,))
OBSERVED = RunContext(Context(gymnasium.spaces.Discrete(2), BOX, settings=SETTINGS))


def marks(rows, run=OBSERVED):
    """`+` raised, `-` cleared, `.` nothing, for each row of metrics."""
    watch = AlertEngine([BOUNDS], run)
    found = [watch.fold(clock(update), {"time/progress": 0.1, **row}) for update, row in enumerate(rows, 1)]
    return "".join("+" if change and change[0].raised else "-" if change else "." for change in found)


def test_an_observation_outside_its_space_is_an_alert_and_one_barely_outside_is_not():
    assert marks([{"env/obs_max/0": 1.5}]) == "+"
    assert marks([{"env/obs_max/0": 1.03}]) == "+"
    assert marks([{"env/obs_max/0": 1.00211}, {"env/obs_min/2": -1.015}]) == ".."  # 1 % of a width of 2
    narrow = RunContext(Context(observation=gymnasium.spaces.Box(1000.0, 1001.0, (1,)), settings=SETTINGS))
    assert marks([{"env/obs_max": 1001.5}], narrow) == "+"


def test_other_metrics_have_no_such_room():
    assert fold(AlertEngine([BOUNDS], RUN), [1.004], metric="opt/clip_fraction") == "+"
    assert fold(AlertEngine([BOUNDS], RUN), [0.70], metric="opt/entropy") == "+"  # ln 2 is 0.693
    assert fold(AlertEngine([BOUNDS], RUN), [0.69], metric="opt/entropy") == "."


def test_a_fault_that_only_some_rows_show_is_raised_once():
    outside = {"env/obs_max/0": 3.0, "opt/entropy": 0.5}
    without = {"opt/entropy": 0.5}
    assert marks([outside, *[without] * 7, outside, *[without] * 7]) == "+" + "." * 15
    inside = {"env/obs_max/0": 0.9}
    assert marks([outside, *[without] * 7, *[inside] * 5]) == "+" + "." * 11 + "-"


def test_bounds_of_a_resumed_run_hold_what_was_possible_before():
    def run(**more):
        context = Context(return_range=(1.0, 100.0), max_episode_steps=100, settings=SETTINGS, **more)
        return RunContext(context)

    row = {"roll/return_max": 133.0, "roll/length_max": 133.0}
    assert marks([row], run()) == "+"
    before = {"roll/return_max": (1.0, 500.0), "roll/length_max": (1.0, 500.0)}
    assert marks([row], run(earlier=before)) == "."
    assert marks([{"roll/return_max": 501.0}], run(earlier=before)) == "+"
