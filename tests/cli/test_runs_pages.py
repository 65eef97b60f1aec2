"""The pages about runs as a user meets them: show, compare, plot, report, explain."""

import csv
import json
import sys
import time

import numpy as np
import pytest

from gymlab.core.clock import Clock
from gymlab.metrics.catalogue import METRICS
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.store import RunStore
from tests.synthetic import RECIPE, make_run

TINY = [
    "n_envs=2", "n_steps=8", "budget=48", "policy.hidden=[4]", "eval.every=100%", "eval.final_episodes=2",
    "checkpoints.every=100%",
]  # fmt: skip


def strict(text):
    return json.loads(text, parse_constant=pytest.fail)


@pytest.fixture
def lab(cli):
    """Two runs that differ in seed, envs and learning rate."""
    make_run(cli.folder / "runs", "one")
    make_run(cli.folder / "runs", "two", n_envs=16, seed=1, learning_rate="0.01")
    return cli


def test_show_is_one_page(lab):
    told = lab("runs", "show", "one")
    assert told.code == 0, told.err
    for part in ("Result", "Settings", "Metrics at update 40", "Returns", "Checkpoints", "next: gymlab eval one"):
        assert part in told.out
    assert "score/auc                 291.50 (mean return over 10.24k env_steps)" in told.out
    assert "roll/return_window" not in told.out
    assert "roll/return_window" in lab("runs", "show", "one", "--all").out


def test_show_as_json_has_settings_score_and_curves(lab):
    facts = strict(lab("runs", "show", "one", "--json").out)
    assert facts["run"]["id"] == "one"
    assert facts["settings"]["ppo.learning_rate"] == "lin_1e-3"
    assert facts["score"]["score/auc"] == pytest.approx(291.5)
    assert facts["curves"]["roll/return_mean"]["x"][-1] == 1280
    assert facts["metrics"]["roll/return_mean"] == 500.0
    assert facts["next"] == "gymlab eval one"


def test_compare_ranks_diffs_and_overlays(lab):
    told = lab("runs", "compare", "one", "two")
    assert told.code == 0, told.err
    lines = told.out.splitlines()
    assert lines[0].split()[:3] == ["run", "score/auc", "to"]
    assert "note: different budgets: scores are over the first 10.24k env_steps" in lines
    assert [line.split() for line in lines if line.startswith(("seed", "n_envs", "learning_rate"))] == [
        ["seed", "0", "1"], ["n_envs", "8", "16"], ["learning_rate", "lin_1e-3", "0.01"]
    ]  # fmt: skip
    assert "  B two (16 envs)" in lines
    assert any(line.endswith("  vec_steps") for line in lines)
    assert any(
        line.endswith("  seconds")
        for line in lab("runs", "compare", "one", "two", "--axis", "seconds").out.splitlines()
    )


def test_compare_as_json(lab):
    data = strict(lab("runs", "compare", "one", "two", "--metric", "opt/entropy", "--json").out)
    assert [run["run_id"] for run in data["runs"]] == ["one", "two"]
    assert data["settings"]["n_envs"] == {"one": 8, "two": 16}
    assert data["curves"]["two"]["x"] == data["curves"]["one"]["x"]
    assert (data["axis"], data["metric"]) == ("vec_steps", "opt/entropy")


def test_plot_is_text_unless_a_picture_is_asked_for(lab):
    assert "B eval/greedy_mean" in lab("runs", "plot", "one").out
    both = lab("runs", "plot", "one", "two", "--metric", "opt/entropy", "--axis", "env_steps", "--smooth", "0.1")
    assert "opt/entropy: Mean entropy" in both.out
    assert "A one (8 envs)" in both.out
    data = strict(lab("runs", "plot", "one", "--metric", "opt/entropy", "--json").out)
    assert len(data["curves"]["one"]["opt/entropy"]["y"]) == 40


def test_plot_writes_a_picture(lab):
    pytest.importorskip("matplotlib")
    done = lab("runs", "plot", "one", "two", "--png", "both.png")
    assert done.code == 0, done.err
    assert (lab.folder / "both.png").read_bytes().startswith(b"\x89PNG")
    assert done.out == ""
    assert "both.png" in done.err
    assert lab("runs", "plot", "one", "--png", "no/such/folder.png").code == 2


def test_everything_but_pictures_works_without_matplotlib(lab, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert lab("runs", "plot", "one").code == 0
    wanted = lab("runs", "plot", "one", "--png", "x.png")
    assert wanted.code == 2
    assert "pip install 'gymlab[plot]'" in wanted.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["runs", "plot", "one", "--metric", "opt/entropi"], "did you mean 'opt/entropy'?"),
        (["runs", "plot", "one", "--axis", "vecsteps"], "did you mean 'vec_steps'?"),
        (["runs", "compare", "one", "thre"], "unknown run 'thre'"),
        (["runs", "compare", "one", "two", "--metric", "x/y"], "has no metric 'x/y'"),
        (["explain", "lerning_rate"], "did you mean 'learning_rate'?"),
        (["explain", "opt/aprox_kl"], "did you mean 'opt/approx_kl'?"),
        (["report", "nothing"], "unknown run 'nothing'"),
    ],
)
def test_a_mistake_gives_one_message(lab, arguments, told):
    done = lab(*arguments)
    assert done.code == 2
    assert told in done.err
    assert done.out == ""


def test_export_still_writes_every_row(lab):
    assert lab("runs", "export", "one", "--csv", "rows.csv").code == 0
    with (lab.folder / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    assert rows[-1]["roll/return_mean"] == "500.0"


def test_a_report_can_be_made_at_any_time(lab):
    told = lab("report", "one")
    assert told.code == 0, told.err
    assert told.out.startswith("# CartPole-v1:ppo, seed 0: solved")
    assert not (lab.folder / "runs/one/report.md").exists()
    assert strict(lab("report", "one", "--json", "--write").out)["score"]["score/auc"] == pytest.approx(291.5)
    assert (lab.folder / "runs/one/report.md").read_text(encoding="utf-8") == told.out


def test_explain_knows_metrics_and_settings(cli):
    told = cli("explain", "opt/approx_kl").out
    assert told.startswith("opt/approx_kl (metric)")
    assert "at least 0" in told
    assert "target_kl" in told
    rate = cli("explain", "learning_rate").out
    assert "ppo 0.0003, a2c 0.0007, reinforce 0.001" in rate
    assert "hp/learning_rate" in rate
    assert "elsewhere called  lr" in cli("explain", "lr").out
    both = strict(cli("explain", "episodes", "--json").out)
    assert [(found["kind"], found["name"]) for found in both] == [("metric", "episodes"), ("setting", "eval.episodes")]


def test_every_command_shows_an_example(cli):
    for command in (["runs", "show"], ["runs", "compare"], ["runs", "plot"], ["report"], ["explain"]):
        assert f"Example: gymlab {' '.join(command)}" in " ".join(cli(*command, "--help").out.split())


def test_a_run_leaves_its_report_and_score(cli):
    done = cli("train", "Bandit-v0:a2c", *TINY, "--full-budget", "--run-id", "r", "-q")
    assert done.code == 0, done.err
    data = json.loads((cli.folder / "runs/r/report.json").read_text())
    assert data["result"]["status"] == "finished"
    assert data["bounds"]["opt/entropy"][1] > 0
    assert (cli.folder / "runs/r/report.md").read_text(encoding="utf-8").startswith("# Bandit-v0:a2c, seed 0")
    summary = json.loads((cli.folder / "runs/r/status.json").read_text())["summary"]
    assert summary["auc"] == data["score"]["score/auc"]


def test_pages_of_a_million_values_are_quick(cli):
    names = [m.name for m in METRICS if not m.is_family and m.namespace in ("roll", "opt", "time", "env")][:80]
    rows, values = 12_500, np.random.default_rng(0).normal(size=(12_500, len(names))).cumsum(0)
    with RunStore.create(cli.folder / "runs", "long", name="CartPole-v1:ppo") as store:
        store.write_manifest({"recipe": "CartPole-v1:ppo", "seed": 0})
        store.write_recipe(RECIPE.format(budget="1M", n_envs=8, learning_rate=1e-3))
        store.start()
        with MetricsWriter(store.paths.metrics) as writer:
            clocks = (Clock(u, 32 * u, 256 * u, u, 0.1 * u) for u in range(1, rows + 1))
            writer.append(
                {**clock._asdict(), **dict(zip(names, row, strict=True))}
                for clock, row in zip(clocks, values.tolist(), strict=True)
            )
        store.end("finished", "budget", Clock(rows, 32 * rows, 256 * rows, rows, 0.1 * rows))
    # The issue asks for 1 s and 2 s: threefold slack for a busy machine.
    for seconds, command in (
        (3.0, ["show", "long"]),
        (6.0, ["plot", "long"]),
        (6.0, ["plot", "long", "--png", "x.png"]),
    ):
        began = time.process_time()
        assert cli("runs", *command).code == 0
        assert time.process_time() - began < seconds, command
