"""Alert rules of the user's own."""

import pytest

from gymlab.alerts.custom import parse_rules
from gymlab.alerts.engine import AlertEngine
from gymlab.alerts.registry import names, rules_from_settings
from gymlab.core.errors import UserError
from gymlab.recipes.keys import flat_settings
from gymlab.recipes.resolve import load_yaml_text, resolve
from gymlab.recipes.schema import AlertSettings
from tests.alerts.rows import RULE, RUN, fold, own


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"metric": "opt/entopy"}, "unknown metric 'opt/entopy': did you mean 'opt/entropy'?"),
        ({"abov": 1}, "unknown key 'abov': did you mean 'above'?"),
        ({"for": "5 of 3"}, "'for' is '3 of 5'"),
        ({"for": "often"}, "'for' is a number of updates such as '3 of 5', got 'often'"),
        ({"after": "200%"}, "'after' is a share of the budget such as 10%, got '200%'"),
        ({"severity": "warn"}, "unknown severity 'warn': did you mean 'warning'?"),
        ({"id": "Too Much"}, "an id is small letters, digits and hyphens"),
        ({"above": "high"}, "'above' is a number, got 'high'"),
        ({"nan": 1}, "'nan' is true or false, got 1"),
        ({"try": ["x"]}, "'try' is a block of settings"),
    ],
)  # fmt: skip
def test_a_wrong_rule_is_told_with_its_key_and_the_nearest_name(change, told):
    with pytest.raises(ValueError, match="rule '") as raised:
        parse_rules([{**RULE, **change}])
    assert told in str(raised.value)


def test_a_recipe_may_have_rules_of_its_own_and_turn_others_off(folder):
    (folder / "rules.yaml").write_text("- {id: stuck, metric: my/number, nan: true, for: 2, try: {epochs: x0.5}}\n")
    block = "alerts: {rules: ./rules.yaml, off: [kl-high, stuck]}"
    text = f"env: {{id: CartPole-v1}}\nvariants:\n  ppo:\n    ppo:\n      epochs: 8\n    {block}\n"
    recipe = load_yaml_text(text)
    (rule,) = recipe.alerts.rules
    assert (rule.id, rule.hits, rule.of, rule.nan) == ("stuck", 2, 2, True)
    kept = {rule.id for rule in rules_from_settings(flat_settings(recipe))}
    assert not kept & {"kl-high", "stuck"}
    assert len(kept) == len(names()) - 2  # kl-high, and stale-transitions, which is REINFORCE's
    assert AlertSettings(**recipe.alerts.model_dump()) == recipe.alerts
    with pytest.raises(UserError, match=r"alerts\.off: unknown alert 'kl-hihg': did you mean 'kl-high'"):
        resolve("CartPole-v1", ["alerts.off=[kl-hihg]"])


def test_a_rule_of_ones_own_tries_a_share_of_what_there_is():
    watch = AlertEngine(own(advice="Calm down.", **{"try": {"learning_rate": "x0.5", "normalize.reward": True}}), RUN)
    fold(watch, [0.9, 0.9])
    (alert,) = watch.alerts()
    assert alert.overrides == {"ppo.learning_rate": "lin_0.0005", "normalize.reward": True}
    assert alert.advice == "Calm down. Try ppo.learning_rate=lin_0.0005, normalize.reward=true."
