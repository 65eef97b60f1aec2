"""Numbers the way people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from gymlab.core.clock import Clock, Count, Number, parse_number
from gymlab.core.format import format_count
from gymlab.recipes.schema import Budget, Cadence, Share, Steps

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("100k", 100_000),
        ("1M", 1_000_000),
        ("2.3M", 2_300_000),  # 2.3 * 10**6 is 2299999.9999999995 in floating point
        ("1.5k", 1500),
        ("1_000", 1000),
        ("-7", -7),
        ("10%", 0.1),
        ("33.3%", 0.333),
        ("1e-3", 0.001),
        ("12345678901234567", 12345678901234567),
        (" 5 ", 5),
    ],
)
def test_parse_number_reads_suffixes_underscores_and_percent(written, value):
    assert parse_number(written) == value
    assert type(parse_number(written)) is type(value)


@pytest.mark.parametrize("written", ["", "k", "1kk", "1 000", "ten", "0x10", "1e", "--1", "٣", "1" * 200, "1e99999"])
def test_text_that_is_not_a_number_is_returned_unchanged(written):
    assert parse_number(written) == written


@given(st.integers(-(10**17), 10**17))
def test_parse_number_keeps_every_integer_exactly(value):
    assert parse_number(str(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_parse_number_keeps_every_float_exactly(value):
    assert parse_number(repr(value)) == value


@given(st.integers(1, 10**12))
def test_a_brief_count_is_parsed_back_to_four_digits(value):
    assert parse_number(format_count(value, brief=True)) == pytest.approx(value, rel=5e-4)


@pytest.mark.parametrize("raw", [True, "many", None, [1], 1.5, 1e16])
def test_count_refuses_values_that_are_not_integers(raw):
    with pytest.raises(ValidationError):
        TypeAdapter(Count).validate_python(raw)


@pytest.mark.parametrize("raw", [True, "many", None, float("nan"), float("inf"), "1e999"])
def test_number_refuses_nan_and_infinity(raw):
    with pytest.raises(ValidationError):
        TypeAdapter(Number).validate_python(raw)


@pytest.mark.parametrize(
    ("raw", "steps"),
    [
        (1000, Steps(count=1000)),
        ("1M", Steps(count=1_000_000)),
        ("1M env_steps", Steps(count=1_000_000)),
        ("10k  vec_steps", Steps(count=10_000, clock="vec_steps")),
        ("10kvec_steps", Steps(count=10_000, clock="vec_steps")),
        ({"vec_steps": "10k"}, Steps(count=10_000, clock="vec_steps")),
        (1e6, Steps(count=1_000_000)),
    ],
)
def test_a_budget_names_its_clock(raw, steps):
    assert TypeAdapter(Budget).validate_python(raw) == steps
    assert TypeAdapter(Budget).validate_python(str(steps)) == steps


@pytest.mark.parametrize("raw", [0, -5, 1.5, "10%", "1M parsecs", True, None, [], {}, {"a": 1, "b": 2}, "1e30", "x y"])
def test_a_budget_refuses_values_that_are_not_a_number_of_steps(raw):
    with pytest.raises(ValidationError):
        TypeAdapter(Budget).validate_python(raw)


@given(st.floats(1e-6, 1.0))
def test_a_share_is_parsed_back_from_its_text(share):
    assert TypeAdapter(Cadence).validate_python(str(Share(share=share))) == Share(share=share)


@pytest.mark.parametrize("raw", ["0%", "101%", "-5%", "10% env_steps"])
def test_a_share_lies_within_the_budget(raw):
    with pytest.raises(ValidationError):
        TypeAdapter(Cadence).validate_python(raw)


def test_clock_at_returns_the_count_of_the_named_clock():
    clock = Clock(updates=2, vec_steps=64, env_steps=512)
    assert (clock.at("vec_steps"), clock.at("env_steps")) == (64, 512)
