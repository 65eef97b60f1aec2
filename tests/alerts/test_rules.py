"""The rules engine: hysteresis, counting, resuming, advice, rules of the user's own, and what readers are told."""

import json
import math
import random

import gymnasium
import pytest

from gymlab.alerts.alert import Alert, alerts_json
from gymlab.alerts.context import Case
from gymlab.alerts.custom import parse_rules
from gymlab.alerts.engine import Watch, watch_rows
from gymlab.alerts.explain import explain, page
from gymlab.alerts.overrides import scaled
from gymlab.alerts.registry import GENERAL, OF_ALGORITHM, all_rules, names, rules_for, rules_of
from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.envs.seed_check import copies
from gymlab.envs.settings import EnvSettings
from gymlab.metrics.bounds import Context
from gymlab.metrics.catalogue import check_names
from gymlab.recipes.keys import flat_settings
from gymlab.recipes.resolve import load_yaml_text, resolve
from gymlab.recipes.schema import AlertSettings
from gymlab.session.explain import explain as explain_anything
from tests.docs.snippets import ROOT

SETTINGS = {
    "budget": "10k env_steps", "n_envs": 4, "n_steps": 25, "env.id": "CartPole-v1", "env.solved_at": 475,
    "ppo.learning_rate": "lin_1e-3", "ppo.entropy_coef": 0, "ppo.epochs": 4, "ppo.target_kl": None,
    "normalize.reward": False,
}  # fmt: skip
CASE = Case(Context(gymnasium.spaces.Discrete(2), settings=SETTINGS))
RULE = {"id": "too-much", "metric": "opt/entropy", "above": 0.5, "for": "2 of 3"}


def clock(update):
    return Clock(update, 25 * update, 100 * update, update, 0.1 * update)


def own(**changes):
    return [rule.rule() for rule in parse_rules([{**RULE, **changes}])]


def fold(watch, values, metric="opt/entropy"):
    """What each row changed: `+` raised, `-` cleared, `.` nothing."""
    marks = ""
    for update, value in enumerate(values, 1):
        changes = watch.fold(clock(update), {metric: value, "time/progress": update / 100})
        marks += "".join("+" if change.raised else "-" for change in changes) or "."
    return marks


def test_an_alert_is_raised_by_k_of_n_sick_rows_and_cleared_by_well_ones():
    #  sick rows:      1    1    0    0    0    1    0    1: cleared by three well ones, raised again by two of three
    assert fold(Watch(own(), CASE), [0.9, 0.9, 0.1, 0.1, 0.1, 0.9, 0.1, 0.9]) == ".+..-..+"


def test_an_alert_counts_sick_rows_and_keeps_the_first_and_the_last():
    watch = Watch(own(), CASE)
    fold(watch, [0.1, 0.9, 0.9, 0.1, 0.8, math.nan])
    (alert,) = watch.alerts()
    assert (alert.count, alert.judged, alert.share) == (3, 5, 0.6)  # NaN is no value: not judged
    assert (alert.first.updates, alert.last.updates, alert.last.env_steps) == (2, 5, 500)
    assert alert.evidence == "opt/entropy is 0.8: above 0.5"
    assert Alert.from_json(json.loads(json.dumps(alert.as_json()))) == alert


def test_nothing_is_counted_before_the_warm_up_is_over():
    watch = Watch(own(after="4%"), CASE)
    assert fold(watch, [0.9] * 6) == "....+."
    assert watch.alerts()[0].judged == 3


def test_alerts_are_sorted_by_id_everywhere():
    rules = [rule for name in ("zebra", "aardvark", "mole") for rule in own(id=name)]
    watch = Watch(rules, CASE)
    fold(watch, [0.9] * 3)
    sorted_ids = ["aardvark", "mole", "zebra"]
    assert [alert.id for alert in watch.alerts()] == sorted_ids
    assert [alert["id"] for alert in alerts_json(reversed(watch.alerts()))["alerts"]] == sorted_ids


def history(seed, length=120):
    """Rows such as a run gives, sick at times, with late values in some of them."""
    dice = random.Random(seed)
    for update in range(1, length):
        sick = 40 < update < 70
        early = {
            "time/progress": update / length, "roll/return_window": 100.0, "hp/learning_rate": 1e-3,
            "roll/return_mean": math.nan if update < 3 else 20.0 + (0 if sick else update) + dice.random(),
            "opt/approx_kl": dice.random() * (0.3 if sick else 0.04), "opt/clip_fraction": dice.random() * 0.6,
            "opt/entropy": dice.random() * (0.02 if sick else 0.6), "opt/value_loss": dice.expovariate(1.0),
            "opt/explained_variance": dice.uniform(-1, 1), "opt/grad_norm": dice.lognormvariate(0, 3),
            "hp/max_grad_norm": 0.5, "roll/action_share/0": 0.9, "roll/action_share/1": 0.1,
        }  # fmt: skip
        late = {}
        if update % 20 == 0:
            late = {"eval/sampled_mean": dice.uniform(0, 100), "eval/greedy_mean": dice.uniform(0, 100)}
        yield clock(update), early, late


def in_parts(watch, rows):
    for at, early, late in rows:
        watch.fold(at, early)
        if late:
            watch.fold(at, late)
    return watch


@pytest.mark.parametrize("seed", range(3))
def test_a_live_run_and_its_store_come_to_the_same(seed):
    rows = list(history(seed))
    live = in_parts(Watch(rules_for(["ppo"]), CASE), rows)
    stored = watch_rows(rules_for(["ppo"]), CASE, [(at, early | late) for at, early, late in rows])
    assert live.alerts() == stored.alerts()
    assert len(live.alerts()) > 3
    assert live.state()["rules"] == stored.state()["rules"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cut", [None, 50])
def test_an_evaluation_that_comes_an_interval_late_is_judged_by_its_own_row(seed, cut):
    rows, owed = list(history(seed)), None
    watch = Watch(rules_for(["ppo"]), CASE)
    for at, early, late in rows:
        watch.fold(at, early)
        if late:  # as beside training: the last one's result comes where the next one is asked for
            if owed is not None:
                watch.fold(*owed)
            owed = at, late
            watch.keep(at.updates)
        if at.updates == cut:  # killed and gone on with
            saved = json.loads(json.dumps(watch.state()))
            watch = Watch(rules_for(["ppo"]), CASE)
            watch.restore(saved)
    watch.fold(*owed)
    stored = watch_rows(rules_for(["ppo"]), CASE, [(at, early | late) for at, early, late in rows])
    assert watch.state()["rules"] == stored.state()["rules"]
    assert watch.alerts() == stored.alerts()


@pytest.mark.parametrize("cut", [1, 41, 60, 80])
def test_a_watch_goes_on_from_its_state_as_if_nothing_had_happened(cut):
    rows = list(history(7))
    whole = in_parts(Watch(rules_for(["ppo"]), CASE), rows)
    first = in_parts(Watch(rules_for(["ppo"]), CASE), rows[:cut])
    at, early, late = rows[cut]
    first.fold(at, early)  # what is evaluated comes after the checkpoint
    second = Watch(rules_for(["ppo"]), CASE)
    second.restore(json.loads(json.dumps(first.state())))
    if late:
        second.fold(at, late)
    assert in_parts(second, rows[cut + 1 :]).state() == whole.state()
    assert second.alerts() == whole.alerts()


def test_what_is_found_about_the_machine_is_no_part_of_the_state():
    watch = Watch(rules_for(["ppo"]), CASE)
    fold(watch, [1000.0] * 12 + [10.0] * 12, metric="time/sps")
    assert [alert.id for alert in watch.alerts()] == ["speed-drop"]
    assert "speed-drop" not in watch.state()["rules"]
    assert "time/sps" not in watch.state()["row"]


def test_of_very_many_updates_a_thousand_are_judged_and_every_evaluation():
    long = Case(Context(gymnasium.spaces.Discrete(2), settings={**SETTINGS, "budget": "1M env_steps"}))
    watch = Watch(rules_for(["ppo"]), long)
    assert long.every == 10
    for at, early, late in history(0):
        watch.fold(at, early | (late and {**late, "eval/sampled_mean": -100.0}))
    state = watch.state()["rules"]
    assert state["kl-high"]["judged"] == 12  # updates 1, 11, 21, ...
    assert state["eval-below-training"]["judged"] == 5  # updates 20, 40, ..., 100


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


def advised(name, evidence_rows, case=CASE):
    watch = Watch([rule for rule in rules_for(["ppo"]) if rule.id == name], case)
    for update, row in enumerate(evidence_rows, 1):
        watch.fold(clock(update), {"time/progress": update / 20, **row})
    (alert,) = watch.alerts()
    return alert


def test_advice_names_the_setting_and_a_value_from_the_recipe():
    # The worst KL was 0.08: the root of 0.02 / 0.08 is a half.
    alert = advised("kl-high", [{"opt/approx_kl": 0.08}] * 3)
    assert alert.overrides == {"ppo.learning_rate": "lin_0.0005"}
    assert "Try ppo.learning_rate=lin_0.0005." in alert.advice
    absurd = Case(Context(settings={**SETTINGS, "ppo.learning_rate": 0.1}))
    assert advised("kl-high", [{"opt/approx_kl": 2.0}] * 3, absurd).overrides == {"ppo.learning_rate": 0.001}


def test_all_advice_can_be_given_to_the_recipe_it_is_about():
    from gymlab.recipes.resolve import amend

    recipe = resolve("CartPole-v1:ppo").recipe
    case = Case(Context(gymnasium.spaces.Discrete(2), settings=flat_settings(recipe)))
    watch = in_parts(Watch(rules_for(["ppo"]), case), history(3))
    for alert in watch.alerts():
        changes = [f"{key}={json.dumps(value)}" for key, value in alert.overrides.items()]
        assert amend(recipe, changes) != recipe or not changes


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
    kept = {rule.id for rule in rules_of(flat_settings(recipe))}
    assert not kept & {"kl-high", "stuck"}
    assert len(kept) == len(names()) - 2  # kl-high, and stale-transitions, which is REINFORCE's
    assert AlertSettings(**recipe.alerts.model_dump()) == recipe.alerts
    with pytest.raises(UserError, match=r"alerts\.off: unknown alert 'kl-hihg': did you mean 'kl-high'"):
        resolve("CartPole-v1", ["alerts.off=[kl-hihg]"])


def test_a_rule_of_ones_own_tries_a_share_of_what_there_is():
    watch = Watch(own(advice="Calm down.", **{"try": {"learning_rate": "x0.5", "normalize.reward": True}}), CASE)
    fold(watch, [0.9, 0.9])
    (alert,) = watch.alerts()
    assert alert.overrides == {"ppo.learning_rate": "lin_0.0005", "normalize.reward": True}
    assert alert.advice == "Calm down. Try ppo.learning_rate=lin_0.0005, normalize.reward=true."


def test_an_algorithm_of_ones_own_has_the_rules_of_the_one_it_extends():
    extended = rules_for([name for name in ("my_ppo", "ppo") if name in OF_ALGORITHM])
    assert {rule.id for rule in extended} == {rule.id for rule in (*GENERAL, *OF_ALGORITHM["ppo"])}
    assert {rule.id for rule in rules_for([])} == {rule.id for rule in GENERAL}


def test_every_rule_looks_at_declared_metrics_and_explains_itself():
    for rule, _ in all_rules():
        looked_at = [name.rstrip("*").rstrip("/") + ("/x" if name.endswith("/*") else "") for name in rule.metrics]
        assert check_names(name for name in looked_at if name) == []
        (told,) = explain(rule.id)
        assert told in explain_anything(rule.id)
        assert told.help.endswith(".")


def test_the_page_of_alerts_is_what_the_rules_say():
    assert (ROOT / "docs/reference/alerts.md").read_text(encoding="utf-8") == page()


@pytest.mark.parametrize(
    ("env", "alike"), [("CartPole-v1", False), ("FrozenLake-v1", False), ("CliffWalking-v1", True)]
)
def test_envs_that_ignore_their_seed_are_copies(env, alike):
    assert copies(EnvSettings(id=env)) is alike
