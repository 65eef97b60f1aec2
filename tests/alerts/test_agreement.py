"""Advice that agrees: no two alerts of a run move one setting in opposite directions."""

import math
from itertools import combinations

import gymnasium
import pytest

from gymlab.alerts.agreement import opposite
from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.alerts.registry import rules_for
from gymlab.core.schedules import parse_schedule
from gymlab.metrics.bounds import Context
from tests.alerts.rows import SETTINGS, clock, history

pytestmark = pytest.mark.fast


def folded(rows, **settings):
    run = RunContext(Context(gymnasium.spaces.Discrete(2), settings=SETTINGS | {"ppo.clip_range": 0.2} | settings))
    engine = AlertEngine(rules_for(["ppo"]), run)
    for update, row in enumerate(rows, 1):
        progress = {"time/progress": update / len(rows), "roll/return_window": 100.0, "roll/return_mean": 20.0}
        engine.fold(clock(update), progress | row)
    return engine


def moves(alerts, settings):
    """(setting, -1 or 1, alert) of all advice about numbers."""
    found = []
    for alert in alerts:
        for key, value in alert.overrides.items():
            if isinstance(value, int | float | str) and not isinstance(value, bool) and settings.get(key) is not None:
                try:
                    change = max(parse_schedule(value).values) - max(parse_schedule(settings[key]).values)
                except ValueError:
                    continue
                found += [(key, math.copysign(1, change), alert.id)] if change else []
    return found


def contradictions(alerts, settings):
    pairs = combinations(moves(alerts, settings), 2)
    return [(a, b) for a, b in pairs if a[0] == b[0] and a[1] != b[1]]


def test_directions_are_those_of_numbers_and_schedules():
    run = RunContext(Context(settings={"ppo.learning_rate": "lin_1e-3", "normalize.obs": False}))
    rate = "ppo.learning_rate"
    assert opposite(rate, {rate: "lin_5e-4"}, {rate: "lin_2e-3"}, run)
    assert not opposite(rate, {rate: "lin_5e-4"}, {rate: "lin_1e-4"}, run)
    assert not opposite(rate, {rate: "lin_5e-4"}, {"ppo.gamma": 0.9}, run)
    assert not opposite("normalize.obs", {"normalize.obs": True}, {"normalize.obs": True}, run)


@pytest.mark.parametrize("seed", range(8))
def test_histories_with_many_alerts_never_advise_opposite_moves(seed):
    settings = SETTINGS | {"ppo.entropy_coef": 0.05, "ppo.learning_rate": 1e-2 if seed % 2 else 1e-5}
    run = RunContext(Context(gymnasium.spaces.Discrete(2), settings=settings))
    engine = AlertEngine(rules_for(["ppo"]), run)
    for at, early, late in history(seed):
        for change in engine.fold(at, early | late):
            assert change.alert.advice
        assert contradictions(engine.alerts(), settings) == []
    assert len(engine.alerts()) > 3


def test_a_policy_that_stands_still_and_then_jumps_is_advised_by_what_is_now():
    still = [{"opt/approx_kl": 1e-8, "opt/entropy": 0.5, "hp/learning_rate": 1e-3}] * 12
    jumps = [{"opt/approx_kl": 0.5, "opt/entropy": 0.5, "hp/learning_rate": 1e-3}] * 8
    engine = folded([*still, *jumps])
    alerts = {alert.id: alert for alert in engine.alerts()}
    assert {"kl-low", "kl-high"} <= alerts.keys()
    assert contradictions(alerts.values(), SETTINGS) == []
    assert alerts["kl-low"].overrides == {}
    assert alerts["kl-low"].advice.startswith("kl-high comes first: A lower learning_rate")


def test_a_clip_range_that_has_come_to_zero_is_the_one_thing_named():
    rows = [{"opt/approx_kl": 1e-9, "opt/entropy": 0.5, "hp/learning_rate": 1e-3, "opt/clip_fraction": 0.99,
             "hp/clip_range": 0.0}] * 20  # fmt: skip
    alerts = {alert.id: alert for alert in folded(rows, **{"ppo.clip_range": "lin_0.2"}).alerts()}
    assert "kl-low" not in alerts
    assert alerts["clip-fraction-high"].overrides == {"ppo.clip_range": 0.2}
    wide = [{**row, "hp/clip_range": 0.2} for row in rows]
    assert folded(wide).alerts()[0].overrides == {"ppo.learning_rate": "lin_0.0004"}


def test_a_learning_rate_of_nothing_is_the_cause_of_weak_greedy_play():
    row = {"opt/approx_kl": 1e-12, "opt/entropy": 0.69, "hp/learning_rate": 1e-9}
    judged = {"eval/greedy_mean": 9.0, "eval/sampled_mean": 22.0, "eval/greedy_episodes": 100.0}
    alerts = {alert.id: alert for alert in folded([{**row, **judged}] * 20, **{"ppo.learning_rate": 1e-9}).alerts()}
    assert alerts["greedy-below-sampled"].overrides == {}
    assert "kl-low comes first" in alerts["greedy-below-sampled"].advice
    assert alerts["kl-low"].overrides == {"ppo.learning_rate": 0.0003}
