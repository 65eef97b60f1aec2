"""Scheduling maths: exact at the corners, between them in between."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from gymlab.algorithms.settings import Positive
from gymlab.algorithms.settings import Share as UnitShare
from gymlab.core.schedules import SHAPES, Scheduled, constant, parse_schedule

pytestmark = pytest.mark.fast

PROGRESS = st.floats(0, 1)
VALUE = st.floats(1e-8, 1e3)


@given(VALUE, PROGRESS)
def test_a_lin_schedule_is_exactly_its_start_times_the_remaining_progress(start, progress):
    # Stable-Baselines3: progress_remaining * initial_value
    assert parse_schedule(f"lin_{start!r}").at(progress) == start * (1 - progress)


@given(VALUE, PROGRESS)
def test_a_number_is_parsed_as_a_constant_schedule(value, progress):
    schedule = parse_schedule(value)
    assert schedule.at(progress) == value
    assert not schedule.varies


@pytest.mark.parametrize(
    ("shape", "middle"),
    [
        ("linear", 0.5005),  # (1 + 0.001) / 2
        ("cosine", 0.5005),  # cos(pi/2) = 0
        ("exp", math.sqrt(0.001)),  # the geometric mean of 1 and 0.001
        ("constant", 1.0),
    ],
)
def test_shapes_at_start_middle_and_end(shape, middle):
    schedule = parse_schedule({"start": 1.0, "end": 0.001, "from": 0.2, "to": 0.8, "shape": shape})
    assert schedule.at(0.0) == schedule.at(0.2) == 1.0
    assert schedule.at(0.5) == pytest.approx(middle, rel=1e-12)
    assert schedule.at(0.8) == schedule.at(1.0) == 0.001


def test_a_piecewise_schedule_interpolates():
    schedule = parse_schedule([["0%", 1e-3], ["30%", 5e-4], [1.0, 1e-5]])
    assert [schedule.at(p) for p in (0, 0.3, 1)] == [1e-3, 5e-4, 1e-5]
    assert schedule.at(0.15) == pytest.approx(7.5e-4)
    assert schedule.at(0.65) == pytest.approx((5e-4 + 1e-5) / 2)


def test_a_schedule_never_falls_below_its_minimum():
    assert parse_schedule({"start": 1e-3, "end": 0, "min": 1e-4}).at(0.99) == 1e-4
    assert parse_schedule({"points": [[0, 1], [1, 0]], "min": 0.25}).at(0.9) == 0.25
    assert parse_schedule({"points": [[0, 1], [1, 0]]}).at(1.0) == 0.0


@given(
    start=VALUE,
    end=VALUE,
    begin=st.floats(0, 0.49),
    finish=st.floats(0.5, 1),
    shape=st.sampled_from(SHAPES),
    p=PROGRESS,
)
def test_every_shape_stays_between_its_ends(start, end, begin, finish, shape, p):
    schedule = parse_schedule({"start": start, "end": end, "from": begin, "to": finish, "shape": shape})
    assert min(start, end) * (1 - 1e-12) <= schedule.at(p) <= max(start, end) * (1 + 1e-12)


@given(start=VALUE, end=VALUE, shape=st.sampled_from(SHAPES), a=PROGRESS, b=PROGRESS)
def test_every_shape_is_monotonic(start, end, shape, a, b):
    schedule = parse_schedule({"start": start, "end": end, "shape": shape})
    early, late = schedule.at(min(a, b)), schedule.at(max(a, b))
    slack = 1e-12 * max(start, end)
    assert early <= late + slack if start <= end else early >= late - slack


@given(st.lists(st.tuples(PROGRESS, VALUE), min_size=1, max_size=6, unique_by=lambda pair: pair[0]), PROGRESS)
def test_a_piecewise_schedule_passes_through_its_points(points, progress):
    points = sorted(points)
    schedule = parse_schedule([list(pair) for pair in points])
    assert all(schedule.at(where) == value for where, value in points)
    assert min(v for _, v in points) <= schedule.at(progress) <= max(v for _, v in points)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("fast", "neither a number nor a schedule"),
        ("lin_x", "neither a number nor a schedule"),
        (None, "neither a number nor a schedule"),
        (True, "neither a number nor a schedule"),
        (float("nan"), "neither a number nor a schedule"),
        ({}, "needs 'start'"),
        ({"end": 1}, "needs 'start'"),
        ({"start": 1, "shap": 2}, "did you mean 'shape'"),
        ({"start": 1, "shape": "cosin"}, "did you mean 'cosine'"),
        ({"start": 1, "from": 0.5, "to": 0.5}, "must lie before"),
        ({"start": 1, "from": "150%"}, "progress runs from 0"),
        ({"start": 1, "end": 0, "shape": "exp"}, "above 0"),
        ({"points": [[0, 1]], "start": 2}, "beside points"),
        ([], "pairs"),
        ([1, 2], "pairs"),
        ([[0, 1, 2]], "pairs"),
        ([[0.5, 1], [0.5, 2]], "must rise"),
        ([["0%", "x"]], "neither a number nor a schedule"),
    ],
)
def test_an_invalid_schedule_raises_an_error_that_names_the_problem(written, says):
    with pytest.raises(ValueError, match=says):
        parse_schedule(written)


class _Model(BaseModel):
    rate: Positive = constant(1.0)
    share: UnitShare = constant(0.5)
    free: Scheduled = constant(0.0)


@pytest.mark.parametrize("raw", [{"rate": -1}, {"rate": "lin_-1"}, {"share": [[0, 0.5], [1, 1.5]]}, {"share": 2}])
def test_bounds_hold_for_every_value_a_schedule_takes(raw):
    with pytest.raises(ValidationError, match="must"):
        _Model.model_validate(raw)


def test_a_minimum_can_bring_a_schedule_within_its_bounds():
    assert _Model.model_validate({"rate": {"start": 1, "end": -1, "min": 0}}).rate.at(1.0) == 0


@pytest.mark.parametrize(
    "written", [3e-4, "lin_3e-4", {"start": 1, "end": 2, "shape": "cosine"}, [["0%", 1], ["50%", 2]]]
)
def test_a_schedule_is_serialized_as_it_was_written_in_the_recipe(written):
    model = _Model.model_validate({"free": written})
    assert model.model_dump()["free"] == written
    assert _Model.model_validate(model.model_dump()) == model


def test_a_schedule_with_one_value_does_not_vary():
    assert not parse_schedule([[0, 1], [1, 1]]).varies
    assert not parse_schedule({"start": 2, "end": 2}).varies
    assert not parse_schedule({"start": 1, "end": 0, "min": 1}).varies
    assert parse_schedule("lin_1").varies
    assert parse_schedule({"start": 1, "end": 2, "to": 0.5, "shape": "constant"}).varies
