"""Every metric is declared once, and what is declared is true."""

import math

import numpy as np
import pytest
from gymnasium import spaces

from gymlab.alerts.custom import parse_rule
from gymlab.envs.make import make_env, time_limit
from gymlab.metrics import catalogue, explain
from gymlab.metrics.bounds import RULES, Context, bounds, bounds_text, inside, return_range
from gymlab.metrics.catalogue import (
    METRICS,
    NAMESPACES,
    check_names,
    declared,
    decreased_counters,
    grouped,
    headlines,
    metric,
    ordered,
    written,
)
from gymlab.metrics.metric import Metric
from gymlab.recipes.keys import flat_settings
from gymlab.recipes.keys import names as setting_names
from gymlab.recipes.resolve import resolve
from gymlab.reports.report import context_of
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.session.session import Options
from gymlab.session.start import train

TINY = [
    "n_envs=2", "n_steps=8", "budget=48", "policy.hidden=[4]", "eval.every=100%", "eval.final_episodes=2",
    "checkpoints.every=100%",
]  # fmt: skip


@pytest.mark.parametrize(
    ("recipe", "more"),
    [
        ("Pendulum-v1:ppo", ["batch_size=8", "epochs=2", "max_episode_steps=20", "engine=gymnasium"]),
        ("Bandit-v0:a2c", []),
        ("Bandit-v0:reinforce", []),
    ],
    ids=["ppo", "a2c", "reinforce"],
)
def test_a_run_records_only_what_is_declared_and_keeps_its_bounds(tmp_path, recipe, more):
    chosen = resolve(recipe, [*TINY, *more]).recipe
    result = train(chosen, Options(full_budget=True), tmp_path)
    with MetricsReader(result.run_dir / "metrics.db") as reader:
        rows = reader.read(clock="updates")
    assert check_names(rows) == []
    env = make_env(chosen.env)
    context = context_of(flat_settings(chosen), env.action_space, env.observation_space, time_limit(chosen.env))
    env.close()
    outside = {
        name: (values, bounds(name, context))
        for name, values in rows.items()
        if not all(inside(value, bounds(name, context)) for value in values.tolist())
    }
    assert outside == {}
    counters = [name for name in rows if metric(name).monotonic]
    assert [name for name in counters if (np.diff(rows[name][np.isfinite(rows[name])]) < 0).any()] == []


def test_every_declaration_is_complete():
    for declaration in METRICS:
        assert declaration.namespace in NAMESPACES, declaration.name
        assert declaration.help.endswith("."), declaration.name
        assert len(declaration.help) > 15, declaration.name
        assert declaration.text(1234.5678), declaration.name
        assert isinstance(declaration.bounds, tuple) or declaration.bounds in RULES, declaration.name
        assert bounds_text(declaration), declaration.name
        low, high = bounds(declaration.name)
        assert low <= high, declaration.name


def test_the_settings_a_metric_names_exist():
    known = set(setting_names())
    assert [(m.name, name) for m in METRICS for name in m.settings if name not in known] == []


def test_priorities_are_distinct_within_a_namespace():
    for namespace in NAMESPACES:
        places = [m.priority for m in METRICS if m.namespace == namespace]
        assert len(places) == len(set(places)), namespace


def test_a_family_covers_its_members_and_not_itself():
    assert declared("opt/grad_norm/policy_trunk").name == "opt/grad_norm/*"
    assert declared("opt/grad_norm").name == "opt/grad_norm"
    assert declared("opt/grad_norm/") is None
    assert declared("hp/anything").name == "hp/*"
    assert check_names(["opt/kl", "opt/kll", "loss", "seconds"]) == ["loss", "opt/kll"]
    assert metric("my/own").priority == 99


def test_the_metric_of_a_task_has_the_declaration_of_its_metric_and_keeps_its_label():
    assert declared("roll/return_mean@a") is declared("roll/return_mean")
    assert declared("opt/grad_norm/policy_trunk@a b").name == "opt/grad_norm/*"
    assert check_names(["roll/return_mean@a", "roll/return_men@a", "roll/return_mean@"]) == [
        "roll/return_mean@", "roll/return_men@a"
    ]  # fmt: skip
    (explained,) = explain.explain("roll/return_mean@a")
    assert explained.name == "roll/return_mean@a"
    assert explained.facts["task"] == "a"
    assert "task" not in explain.explain("roll/return_mean")[0].facts
    names = ["roll/return_mean@b", "roll/return_std", "roll/return_mean", "roll/return_mean@a"]
    assert ordered(names) == ["roll/return_mean", "roll/return_mean@a", "roll/return_mean@b", "roll/return_std"]
    assert written("roll/return_mean@a", 1.234) == "1.23"
    assert decreased_counters({"env_steps@a": 2.0}, {"env_steps@a": 1.0}) == ["env_steps@a"]


@pytest.mark.parametrize("namespace", ["model", "intrinsic"])
def test_a_metric_of_a_learned_model_or_of_a_bonus_needs_a_declaration_as_any_other(monkeypatch, namespace):
    declaration = Metric(f"{namespace}/x", "A metric that an extension declares.", "", ".2f", 1, (0.0, 1.0))
    assert declaration.namespace in NAMESPACES
    assert check_names([declaration.name]) == [declaration.name]
    with pytest.raises(ValueError, match=f"unknown metric '{declaration.name}'"):
        parse_rule({"id": "high", "metric": declaration.name, "above": 0})
    monkeypatch.setitem(catalogue._EXACT, declaration.name, declaration)
    assert check_names([declaration.name, f"{declaration.name}@a"]) == []
    assert bounds(f"{declaration.name}@a") == (0.0, 1.0)
    assert list(grouped(["hp/gamma", declaration.name, "opt/loss"])) == ["opt", namespace, "hp"]
    assert parse_rule({"id": "high", "metric": f"{declaration.name}@a", "above": 0}).metric == f"{declaration.name}@a"


def test_tables_are_ordered_by_namespace_then_priority():
    names = ["hp/gamma", "opt/loss", "opt/entropy", "roll/return_std", "roll/return_mean", "my/own", "updates"]
    assert ordered(names) == [
        "updates", "roll/return_mean", "roll/return_std", "opt/entropy", "opt/loss", "hp/gamma", "my/own"
    ]  # fmt: skip
    assert list(grouped(names)) == ["clock", "roll", "opt", "hp", "my"]
    assert headlines(["roll/return_window", "roll/return_mean"]) == ["roll/return_mean"]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("roll/return_mean", 123.456, "123.46"),
        ("opt/explained_variance", float("nan"), "nan"),
        ("env_steps", 1_234_567, "1.235M"),
        ("env_steps", 9999, "9999"),
        ("time/progress", 0.256, "25.6 %"),
        ("sys/rss", 1.5e9, "1.5 GB"),
        ("seconds", 3723, "1:02:03"),
        ("seconds", 12.34, "12.3 s"),
        ("my/own", 0.123456, "0.1235"),
    ],
)
def test_values_are_written_at_their_precision(name, value, text):
    assert written(name, value) == text


def test_a_counter_that_falls_is_named():
    before, after = {"env_steps": 10, "roll/return_mean": 5.0}, {"env_steps": 9, "roll/return_mean": 1.0, "updates": 1}
    assert decreased_counters(before, after) == ["env_steps"]


CONTEXT = Context(
    action=spaces.Discrete(4),
    observation=spaces.Box(np.float32([-1, 0]), np.float32([1, 10])),
    return_range=(-100.0, 20.0),
    max_episode_steps=200,
    settings={"n_envs": 8, "n_steps": 32, "ppo.epochs": 10, "ppo.batch_size": 64, "ppo.max_grad_norm": "lin_0.5"},
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("opt/entropy", (0.0, math.log(4))),
        ("opt/max_prob", (0.25, 1.0)),
        ("roll/return_mean", (-100.0, 20.0)),
        ("eval/greedy_std", (0.0, 60.0)),  # half the width: as many at either end
        ("roll/length_mean", (1.0, 200.0)),
        ("roll/action_mean", (0.0, 3.0)),
        ("env/obs_mean", (-1.0, 10.0)),
        ("env/obs_mean/1", (0.0, 10.0)),
        ("env/obs_std/0", (0.0, 1.0)),
        ("roll/episodes", (0.0, 256.0)),
        ("opt/gradient_steps", (0.0, 40.0)),  # 10 epochs of 256 / 64 minibatches
        ("opt/grad_norm_clipped", (0.0, 0.5)),
        ("opt/clip_fraction", (0.0, 1.0)),
        ("opt/loss", (-math.inf, math.inf)),
        ("hp/max_grad_norm", (0.0, 0.5)),
        ("roll/return_mean@left", (-100.0, 20.0)),
        ("env/obs_mean/1@left", (0.0, 10.0)),
        ("not/declared", (-math.inf, math.inf)),
    ],
)
def test_bounds_come_from_spaces_settings_and_spec(name, expected):
    assert bounds(name, CONTEXT) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("space", "most"),
    [
        (spaces.MultiDiscrete([2, 3]), math.log(2) + math.log(3)),
        (spaces.MultiBinary(5), 5 * math.log(2)),
        (spaces.Discrete(3, start=5), math.log(3)),
    ],
)
def test_the_most_entropy_is_that_of_the_uniform_policy(space, most):
    assert bounds("opt/entropy", Context(action=space)) == pytest.approx((0.0, most))


def test_continuous_actions_have_no_bound_on_entropy_but_one_on_actions():
    context = Context(action=spaces.Box(np.float32([-1, -3]), np.float32([1, 3])))
    assert bounds("opt/entropy", context) == (-math.inf, math.inf)
    assert bounds("roll/action_mean/0", context) == (-1.0, 1.0)
    assert bounds("roll/action_std/1", context) == (0.0, 3.0)
    nested = Context(observation=spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Discrete(3)}))
    assert bounds("env/obs_mean/b", nested) == (0.0, 2.0)
    assert bounds("env/obs_max", nested) == (0.0, 2.0)


def test_rounding_is_no_violation_but_a_bug_is():
    assert inside(1.00001, (0.0, 1.0))
    assert inside(-1e-8, (0.0, math.inf))
    assert inside(float("nan"), (0.0, 1.0))
    assert not inside(1.01, (0.0, 1.0))
    assert not inside(float("inf"), (0.0, 1.0))


def test_the_returns_that_are_possible_are_known_for_classic_envs():
    assert return_range("CartPole-v1", 500) == (1.0, 500.0)
    assert return_range("MountainCar-v0", 200) == (-200.0, -1.0)
    assert return_range("FrozenLake-v1", 100) == (0.0, 1.0)
    assert return_range("Taxi-v4", 200) == (-2000.0, 20.0)
    assert return_range("CartPole-v1", 500, {"sutton_barto_reward": True}) is None
    assert return_range("Unknown-v0", 500) is None


def test_the_table_for_the_documentation_has_every_metric():
    table = explain.metrics_table()
    assert [m.name for m in METRICS if f"| `{m.name}` |" not in table] == []
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {7}


def test_describe_tells_what_is_known():
    text = explain.describe("opt/approx_kl")
    assert [word for word in ("bounds", "at least 0", "target_kl") if word not in text] == []
    assert explain.describe("hp/learning_rate").count("learning_rate") > 1
    assert "nearest: opt/entropy" in explain.describe("opt/entropie")


def test_a_metric_is_frozen():
    with pytest.raises(AttributeError):
        METRICS[0].name = "x"
    assert isinstance(METRICS[0], Metric)
