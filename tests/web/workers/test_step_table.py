"""What stands out in an episode, and the episode as text; on rows made by hand."""

import pytest

from gymlab.web.workers.step_table import (
    EpisodeTable,
    episode_text,
    highest_surprise,
    lowest_value,
    next_event,
    reward_events,
    value_at,
    with_value,
)

pytestmark = pytest.mark.fast


def table(**columns):
    count = len(next(iter(columns.values())))
    usual = {"reward": [1.0] * count, "value": [0.0] * count, "td_error": [0.0] * count} | columns
    rows = [
        {
            "step": t, "observation": [t], "label": "left", "entropy": 0.5, "probability": None, "advantage": 0.0,
            "return_so_far": sum(usual["reward"][: t + 1]), **{name: values[t] for name, values in usual.items()},
        }
        for t in range(count)
    ]  # fmt: skip
    return EpisodeTable(rows, "terminated", "512", 7, sampled=False, name="e0")


def test_the_lowest_value_and_the_highest_surprise_are_found_and_unknown_ones_passed_over():
    found = table(value=[1.0, None, -2.0, 3.0], td_error=[0.1, -5.0, None, 4.0])
    assert (lowest_value(found), highest_surprise(found)) == (2, 1)
    assert lowest_value(table(value=[None, None])) is None


def test_reward_events_are_those_that_pay_otherwise_than_usual():
    assert reward_events(table(reward=[0.0, 0.0, -1.0, 0.0, 1.0])) == [2, 4]
    assert reward_events(table(reward=[1.0] * 5)) == []
    assert reward_events(table(reward=[0.1, 0.2, 0.3, 0.15, 0.25, 0.12, 0.22, 9.0])) == [7]
    assert reward_events(table(reward=[])) == []


def test_the_next_event_comes_round_again():
    assert [next_event([2, 4], step) for step in (0, 2, 4)] == [2, 4, 2]
    assert next_event([], 0) is None


def test_the_text_is_short_and_names_what_stands_out():
    found = table(reward=[0.0] * 500, td_error=[0.0] * 250 + [9.0] + [0.0] * 249)
    text = episode_text(found, ["angle"], most=5)
    assert len(text.splitlines()) == 3 + 5
    assert "seed 7, greedy, 500 steps, return 0, ended: terminated" in text
    assert "- step 250: saw [250]; did left" in text
    assert "observation: angle" in text


def test_one_part_of_an_observation_is_changed_and_the_rest_stays():
    before = {"a": [1.0, [2.0, 3.0]], "b": 4}
    after = with_value(before, ["a", 1, 0], 9.0)
    assert (value_at(after, ["a", 1, 0]), value_at(before, ["a", 1, 0])) == (9.0, 2.0)
    assert after == {"a": [1.0, [9.0, 3.0]], "b": 4}
    assert with_value(3, [], 5) == 5


def test_an_episode_sums_to_its_return():
    assert table(reward=[1.0, 2.0]).total == pytest.approx(3.0)
