"""A comparison claims a difference only where its interval lies on one side of zero."""

import pytest

from gymlab.campaigns.comparison import Side, compare, comparison_json, format_comparison, verdict
from tests.campaigns.records import record

pytestmark = pytest.mark.fast


def side(label, scores, steps=None):
    steps = steps or [None] * len(scores)
    pairs = enumerate(zip(scores, steps, strict=True))
    return Side(label, tuple(record(score, seed=seed, steps=step) for seed, (score, step) in pairs))


def test_a_clear_difference_is_claimed_for_the_better_side():
    found = compare(side("a", [1, 2, 3, 2, 1]), side("b", [11, 12, 13, 12, 11]))
    assert found.score.gain.value == pytest.approx(10)
    assert found.score.better_b == 1.0
    assert verdict(found.score, "A", "B").startswith("score: B is better than A by 10 [")
    turned = compare(side("b", [11, 12, 13, 12, 11]), side("a", [1, 2, 3, 2, 1]))
    assert verdict(turned.score, "A", "B").startswith("score: A is better than B by 10 [")


@pytest.mark.parametrize(
    ("a", "b"),
    [([1, 9, 2, 8, 5], [2, 9, 3, 8, 5]), ([500] * 5, [500] * 5), ([0, 0, 0, 0, 100], [0, 0, 0, 100, 100])],
)
def test_a_difference_whose_interval_holds_zero_is_not_claimed(a, b):
    found = compare(side("a", a), side("b", b))
    assert found.score.gain.low <= 0 <= found.score.gain.high
    assert "no difference is shown" in verdict(found.score, "A", "B")
    assert comparison_json(found)["score"]["difference_shown"] is False


def test_two_runs_a_side_are_too_few_however_far_apart():
    found = compare(side("a", [1, 1]), side("b", [100, 100]))
    assert found.score.gain.low > 0
    assert not found.score.significant
    assert "too few runs to say" in verdict(found.score, "A", "B")


def test_a_run_that_never_came_to_the_threshold_counts_as_the_whole_budget():
    found = compare(side("a", [500] * 5, [90, 80, 100, None, None]), side("b", [500] * 5, [10, 20, 10, 20, 10]))
    assert found.reached == (3, 5)
    assert found.steps.a.value == pytest.approx((90 + 100 + 100) / 3)  # of 80 90 100 100 100
    assert found.steps.gain.value == pytest.approx(found.steps.a.value - 40 / 3)
    assert found.steps.better_b == 1.0
    assert "steps to threshold: B is better than A" in "\n".join(format_comparison(found))
    assert "3 of 5 runs of A and 5 of 5 runs of B reached it" in "\n".join(format_comparison(found))


def test_without_a_common_threshold_nothing_is_timed_and_notes_say_what_does_not_compare():
    other = Side("b", (record(1, recipe="Acrobot-v1:ppo", threshold=-100.0, budget=50, status="stopped"),))
    found = compare(side("a", [1]), other)
    assert found.threshold is None
    assert found.steps is None
    told = "\n".join(found.notes)
    assert "different envs" in told
    assert "different budgets" in told
    assert "not at their end: run-0" in told
