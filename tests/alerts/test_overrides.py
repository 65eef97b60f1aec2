"""Overrides that advice suggests: scaled values, and that the recipe accepts them."""

import json

import gymnasium
import pytest

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import AlertEngine
from gymlab.alerts.overrides import scaled
from gymlab.alerts.registry import rules_for
from gymlab.metrics.bounds import Context
from gymlab.recipes.keys import flat_settings
from gymlab.recipes.resolve import resolve
from tests.alerts.rows import RUN, SETTINGS, clock, history, in_parts

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("written", "factor", "expected"),
    [
        (3e-4, 0.5, 1.5e-4), ("lin_3e-4", 0.1, "lin_3e-05"), (64, 2, 128), ("100k", 0.5, 50000), ("auto", 2, "auto"),
        ({"start": 1e-3, "end": 1e-5, "shape": "exp"}, 0.1, {"start": 1e-4, "end": 1e-6, "shape": "exp"}),
        ([["0%", 1e-3], ["100%", 1e-5]], 3, [["0%", 3e-3], ["100%", 3e-5]]),
    ],
)  # fmt: skip
def test_a_schedule_is_scaled_and_keeps_its_shape(written, factor, expected):
    assert scaled(written, factor) == expected


def advised(name, evidence_rows, run=RUN):
    watch = AlertEngine([rule for rule in rules_for(["ppo"]) if rule.id == name], run)
    for update, row in enumerate(evidence_rows, 1):
        watch.fold(clock(update), {"time/progress": update / 20, **row})
    (alert,) = watch.alerts()
    return alert


def test_advice_names_the_setting_and_a_value_from_the_recipe():
    # The worst KL was 0.08: the root of 0.02 / 0.08 is a half.
    alert = advised("kl-high", [{"opt/approx_kl": 0.08}] * 3)
    assert alert.overrides == {"ppo.learning_rate": "lin_0.0005"}
    assert "Try ppo.learning_rate=lin_0.0005." in alert.advice
    absurd = RunContext(Context(settings={**SETTINGS, "ppo.learning_rate": 0.1}))
    assert advised("kl-high", [{"opt/approx_kl": 2.0}] * 3, absurd).overrides == {"ppo.learning_rate": 0.001}


def test_all_advice_can_be_given_to_the_recipe_it_is_about():
    from gymlab.recipes.resolve import amend

    recipe = resolve("CartPole-v1:ppo").recipe
    run = RunContext(Context(gymnasium.spaces.Discrete(2), settings=flat_settings(recipe)))
    watch = in_parts(AlertEngine(rules_for(["ppo"]), run), history(3))
    for alert in watch.alerts():
        changes = [f"{key}={json.dumps(value)}" for key, value in alert.overrides.items()]
        assert amend(recipe, changes) != recipe or not changes
