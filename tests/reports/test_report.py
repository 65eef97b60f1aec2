"""Scores, reports and comparisons of runs whose numbers are known."""

import json
import logging
import math

import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.core.errors import UserError
from gymlab.core.format import format_duration
from gymlab.features.report import WriteReport
from gymlab.metrics.bounds import Context
from gymlab.recipes.keys import default_settings, read_settings
from gymlab.reports import compare, sections
from gymlab.reports.page import page
from gymlab.reports.report import build_report, context_of, known_bounds, write_report
from gymlab.reports.run_facts import read_facts
from gymlab.reports.scoring import Evaluations, auc, counted_returns, score, steps_to_threshold
from gymlab.runs import files
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.store import RunStore
from gymlab.training.events import Ended
from tests.synthetic import facts_of, make_run

CURVE = Evaluations(np.array([100.0, 200.0, 400.0]), np.array([10.0, 30.0, 30.0]), first_return=0.0)
SNAPSHOT = """\
# CartPole-v1:ppo, seed 0: solved

Run `one`, jax engine on cpu.

## Result

| what | value |
| --- | --- |
| status | finished, stop_reason: budget |
| solved | yes (greedy return of 475) |
| greedy | 500.00 ± 10.00 over 100 episodes |
| sampled | 480.00 ± 10.00 over 100 episodes |
| score | 500.00 |
| steps | 1280 vec_steps · 10.24k env_steps · 40 updates · 320 gradient_steps · 160 episodes |
| time | 10 s |

## Score

| what | value |
| --- | --- |
| score/auc | 291.50 (mean return over 10.24k env_steps) |
| score/steps_to_threshold | 10.24k env_steps (threshold 475) |

## Curves

```text
    │                                                             B**
    │┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈B****A┈┈
    │                                                  ******A
400 ┤                                            ******
    │                                    B*******
    │                             BBB****A
    │                    BBBBBB***AAA
200 ┤                BBBBAAAAAA
    │              AAAAAA
    │        AAAAAA
    │  AAAAAA
  0 ┤
    └┬────────────────────────┬───────────────────────┬──────────────
     0                       500                    1000  vec_steps
  A roll/return_mean
  B eval/greedy_mean
  ┈ solved at 475
```

```text
eval/sampled_mean         187.50  →  480.00  ▁▃▆█                                      187.50 to 480.00
opt/entropy               0.6563  →  0.0934  ██▇▇▇▆▆▆▅▅▅▅▄▄▄▄▄▃▃▃▃▃▃▂▂▂▂▂▂▂▂▂▁▁▁▁▁▁▁▁  0.0934 to 0.6563
opt/explained_variance     0.050  →  1.000   ▁▁▁▂▂▂▂▂▂▃▃▃▃▃▄▄▄▄▄▅▅▅▅▅▅▆▆▆▆▆▇▇▇▇▇▇███   0.050 to 1.000, 1 not finite
hp/learning_rate        0.000975  →  0       ███▇▇▇▇▇▇▆▆▆▆▆▅▅▅▅▅▅▄▄▄▄▄▄▃▃▃▃▃▂▂▂▂▂▂▁▁▁  0 to 0.000975
```

## Settings

| key | value | default |
| --- | --- | --- |
| `budget` | 10240 env_steps | 100k env_steps |
| `n_steps` | 32 | 128 |
| `ppo.learning_rate` | lin_1e-3 | 0.0003 |
| `ppo.gamma` | 0.98 | 0.99 |
| `ppo.epochs` | 20 | 10 |

All other settings have their default; every value stands in `recipe.yaml`.

## Time

| phase | time | share |
| --- | --- | --- |
| collect and update, compiled into one | 8.12 s | 76% |
| evaluate | 2 s | 19% |
| checkpoint | 0.5 s | 5% |

8000 env_steps per second over the last session.

## Checkpoints

none

## Reproduction

In this folder:

```bash
gymlab train recipe.yaml --seed 0 --engine jax --device cpu
```

It was started by `gymlab train CartPole-v1:ppo --seed 0`.

Made with gymlab 0.1.0.
"""


def test_the_area_under_the_curve_is_the_mean_return_over_the_budget():
    # Straight lines 0 -> 10 -> 30 -> 30 over 100, 100 and 200 steps: (500 + 2000 + 6000) / 400.
    assert auc(CURVE, 400) == pytest.approx(8500 / 400)
    # Cut at 150, where the line stands at 20: (500 + 50 * 15) / 150.
    assert auc(CURVE, 150) == pytest.approx((500 + 750) / 150)


def test_a_run_that_stopped_early_keeps_its_last_value():
    assert auc(CURVE, 800) == pytest.approx((8500 + 400 * 30) / 800)


def test_without_a_first_return_the_curve_begins_with_the_first_evaluation():
    assert auc(CURVE._replace(first_return=math.nan), 100) == 10.0
    assert auc(Evaluations(np.empty(0), np.empty(0)), 100) is None


def test_steps_to_threshold_are_those_of_the_first_evaluation_that_reached_it():
    assert steps_to_threshold(CURVE, 30.0) == 200
    assert steps_to_threshold(CURVE, 31.0) is None
    assert steps_to_threshold(CURVE, None) is None


def test_a_run_that_is_not_done_is_scored_up_to_where_it_is():
    partial = score(CURVE, 30.0, budget=800, done=400, finished=False)
    assert (partial.horizon, partial.partial, partial.auc) == (400, True, pytest.approx(21.25))
    assert score(CURVE, 30.0, budget=800, done=400, finished=True).horizon == 800


def test_both_means_the_worse_of_two():
    greedy, sampled = np.array([1.0, 5.0]), np.array([2.0, 3.0])
    assert counted_returns(greedy, sampled, "both").tolist() == [1.0, 3.0]
    assert counted_returns(greedy, sampled, "sampled").tolist() == [2.0, 3.0]


@pytest.fixture
def one(tmp_path):
    return make_run(tmp_path / "runs", "one")


def report_of(paths):
    facts = facts_of(paths)
    return build_report(facts, default_settings(facts.settings, of_algorithm=True))


def test_the_report_of_a_known_run(one):
    assert report_of(one).markdown == SNAPSHOT


@pytest.mark.parametrize(
    ("solved_by", "told"),
    [("sampled", "sampled return of 475"), ("both", "greedy and sampled return of 475")],
)
def test_the_report_says_which_way_of_acting_counts(tmp_path, solved_by, told):
    one = make_run(tmp_path / "runs", "one")
    one.recipe.write_text(one.recipe.read_text().replace("solved_by: greedy", f"solved_by: {solved_by}"))
    report = report_of(one)
    assert f"| solved | yes ({told}) |" in report.markdown
    assert report.data["result"]["solved_by"] == solved_by


def test_the_report_says_by_how_much_a_budget_was_exceeded(tmp_path):
    over = report_of(make_run(tmp_path / "runs", "over", budget=10000))
    assert "| budget | 10000 env_steps, exceeded by 240 env_steps |" in over.markdown
    assert over.data["result"]["over_budget"] == 240
    met = report_of(make_run(tmp_path / "runs", "met"))
    assert "exceeded" not in met.markdown
    assert met.data["result"]["over_budget"] == 0


def test_shares_of_time_are_of_the_runs_own_seconds_not_of_those_of_threads(tmp_path):
    run = make_run(tmp_path / "runs", "one")
    before = report_of(run).data["time"]["seconds"]
    with MetricsWriter(run.metrics) as writer:
        writer.amend(40, {"time/compile": 99.0})  # in eight threads at once, of a run of 10 s
    report = report_of(run)
    assert report.data["time"]["seconds"] == before
    assert report.data["time"]["compile_thread_seconds"] == 99.0
    assert f"Compiling took {format_duration(99.0)} in all threads" in report.markdown


def test_the_report_as_data_is_strict_json(one):
    data = json.loads(files.strict_json(report_of(one).data), parse_constant=pytest.fail)
    assert data["result"]["eval"]["greedy"] == {"mean": 500.0, "std": 10.0, "n": 100}
    # From 32, the first training return, over 200, 300 and 400 to 500 in four equal parts.
    assert data["score"]["score/auc"] == pytest.approx((116 + 250 + 350 + 450) / 4)
    assert data["settings"]["changed"]["ppo.gamma"] == {"value": 0.98, "default": 0.99}
    assert data["curves"]["opt/entropy"]["y"][0] == pytest.approx(0.69 * math.exp(-0.05), rel=1e-5)
    assert data["curves"]["opt/explained_variance"]["not_finite"] == 1
    assert data["reproduction"]["command"].startswith("gymlab train recipe.yaml --seed 0")


def test_a_report_is_written_and_tells_bounds_to_later_readers(one):
    facts = facts_of(one)
    assert known_bounds(facts)["opt/entropy"] == (-math.inf, math.inf)
    write_report(one, build_report(facts, {}, {"opt/entropy": (0.0, math.log(2)), "opt/loss": (-math.inf, math.inf)}))
    assert known_bounds(facts)["opt/entropy"] == (0.0, math.log(2))
    assert known_bounds(facts)["opt/loss"] == (-math.inf, math.inf)
    assert known_bounds(facts)["time/progress"] == (0.0, 1.0)
    assert one.report.read_text(encoding="utf-8").startswith("# CartPole-v1:ppo")


def test_bounds_of_returns_come_from_the_env_unless_it_was_changed(one):
    settings = read_settings(one.recipe)
    assert context_of(settings, limit=500).return_range == (1.0, 500.0)
    assert context_of(settings | {"env.kwargs.x": 1}, limit=500).return_range is None
    wrapped = settings | {"env.wrappers": ["./mine.py:Bonus"]}
    assert context_of(wrapped, limit=500).return_range is None
    assert context_of(wrapped, limit=500, keeps_returns=True).return_range == (1.0, 500.0)


def test_a_run_without_anything_still_has_a_page_and_a_report(tmp_path):
    with RunStore.create(tmp_path, "bare", name="x") as store:
        store.write_manifest({})
        store.start()
        store.end("failed", "no luck")
    facts = facts_of(store.paths)
    assert "unknown recipe" in build_report(facts, {}).markdown
    told = "\n".join(page(facts, {}))
    assert "failed, stop_reason: no luck" in told
    assert "next: gymlab diagnose bare" in told


def test_the_page_groups_the_last_row_in_order_of_priority(one):
    facts = facts_of(one)
    lines = page(facts, default_settings(facts.settings, of_algorithm=False))
    text = "\n".join(lines)
    places = [
        text.index(name) for name in ("Rollout\n", "Evaluation\n", "Optimisation\n", "Time\n", "Hyperparameters\n")
    ]
    assert places == sorted(places)
    assert "    roll/return_mean  500.00  return  ▁▁▁" in text
    assert "roll/return_window" not in text
    assert "roll/return_window" in "\n".join(page(facts, {}, every_metric=True))
    assert "  ppo     learning_rate lin_1e-3, gamma 0.98, epochs 20" in lines
    assert lines[-1] == "next: gymlab eval one"


def test_what_a_stranger_wrote_cannot_speak_to_the_terminal_or_break_a_table(tmp_path):
    paths = make_run(tmp_path, "evil")
    manifest = json.loads(paths.manifest.read_text())
    paths.manifest.write_text(json.dumps(manifest | {"recipe": "\x1b[2J|x\n# y", "note": "\x07", "engine": 3}))
    facts = facts_of(paths)
    text = build_report(facts, {}).markdown + "\n".join(page(facts, {}))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\n# y" not in text


@pytest.mark.parametrize("odd", [3, "x", [1], {"a": [2]}, None, 1e400], ids=str)
def test_whatever_a_stranger_wrote_the_pages_are_made(tmp_path, odd):
    paths = make_run(tmp_path, "odd")
    keys = (
        "recipe",
        "algorithm",
        "env",
        "seed",
        "engine",
        "versions",
        "command",
        "sessions",
        "note",
        "git",
        "solved_at",
    )
    paths.manifest.write_text(json.dumps(dict.fromkeys(keys, odd)))
    clock = dict.fromkeys(("updates", "vec_steps", "env_steps", "episodes", "seconds", "gradient_steps"), odd)
    summary = {"eval": {"greedy": odd}, "solved": odd, "score": odd}
    for status in ({"clock": clock, "summary": summary}, {"clock": odd, "summary": odd}):
        paths.status.write_text(json.dumps({"status": "finished", "stop_reason": odd, **status}))
        settings = dict.fromkeys(read_settings(paths.recipe), odd)
        facts = read_facts(paths, settings)
        assert build_report(facts, {}, known_bounds(facts)).markdown
        assert page(facts, {})
        assert compare.page([facts, facts], "roll/return_mean")


def test_runs_are_ranked_by_their_score_over_the_shortest_budget(tmp_path):
    fast = facts_of(make_run(tmp_path, "fast", updates=20, learning_rate="0.01"))
    slow = facts_of(make_run(tmp_path, "slow", updates=40, seed=3))
    assert compare.horizon([slow, fast]) == 32 * 8 * 20
    ranks = compare.ranked([slow, fast])
    assert [run.run_id for run, _ in ranks] == ["fast", "slow"]
    assert ranks[0][1] == pytest.approx(fast.score.auc)
    assert compare.settings_diff([slow, fast]) == {
        "seed": [3, 0],
        "budget": ["10240 env_steps", "5120 env_steps"],
        "learning_rate": ["lin_1e-3", 0.01],
    }
    assert compare.notes([slow, fast]) == ["different budgets: scores are over the first 5120 env_steps"]


def test_runs_with_different_n_envs_overlay_on_vec_steps(tmp_path):
    runs = [make_run(tmp_path, "few", n_envs=4), make_run(tmp_path, "many", n_envs=32)]
    on_vec = [facts_of(paths, metrics=["roll/return_mean"]) for paths in runs]
    few, many = (compare.curve_of(run, "roll/return_mean") for run in on_vec)
    assert few.x.tolist() == many.x.tolist() == [32.0 * update for update in range(1, 41)]
    drawn = compare.overlay(on_vec, "roll/return_mean")
    assert [line for line in drawn if "A" in line or "B" in line][-2:] == ["  A few (4 envs)", "  B many (32 envs)"]
    assert sum(line.count("*") for line in drawn) > 60  # they lie on each other
    on_env = [facts_of(paths, metrics=["roll/return_mean"], axis="env_steps") for paths in runs]
    ends = [compare.curve_of(run, "roll/return_mean").x[-1] for run in on_env]
    assert ends[1] == 8 * ends[0]


def test_an_unknown_metric_is_named_with_the_nearest_one(one):
    with pytest.raises(UserError, match="run 'one' has no metric 'opt/entropi': did you mean 'opt/entropy'"):
        compare.overlay([facts_of(one, metrics=["opt/entropi"])], "opt/entropi")


def test_what_to_do_next_follows_from_the_status(tmp_path):
    stopped = facts_of(make_run(tmp_path, "s", status="stopped"))
    assert sections.next_command(stopped) == "gymlab resume s"
    assert stopped.score.partial


class Queue:
    """Control with nothing behind it but a list."""

    def __init__(self):
        self.events = []

    def emit(self, event):
        self.events.append(event)


def end(store, feature):
    queue = Queue()
    feature(Ended(Clock(), "budget", "finished"), queue)
    assert not store.paths.report.is_file()  # others are still to be told of the end
    for event in queue.events:
        feature(event, queue)


def test_the_feature_writes_the_report_after_everyone_was_told_of_the_end(one):
    settings = read_settings(one.recipe)
    with RunStore.open(one) as store:
        end(store, WriteReport(store, settings, {}, Context(settings=settings)))
    data = json.loads(one.report.with_suffix(".json").read_text())
    assert data["bounds"]["hp/learning_rate"] == [0.0, 0.001]
    assert facts_of(one).summary["auc"] == pytest.approx(data["score"]["score/auc"])


def test_a_report_that_cannot_be_written_does_not_break_the_run(one, caplog):
    one.report.mkdir()
    with RunStore.open(one) as store, caplog.at_level(logging.WARNING):
        end(store, WriteReport(store, {}, {}, Context()))
    assert "`gymlab report one` makes it" in caplog.text
