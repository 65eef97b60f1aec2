"""train, resume and eval as a user meets them."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from gymlab.runs import files
from gymlab.runs.checkpoints import load_checkpoint, read_index, steps
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from tests.running import assert_same_run, environment, metric_rows
from tests.runs.portable_names import unportable_names

TINY = [
    "n_envs=4",
    "n_steps=16",
    "batch_size=32",
    "epochs=2",
    "policy.hidden=[8]",
    "eval.episodes=2",
    "eval.final_episodes=2",
    "eval.every=50%",
]


@pytest.fixture
def trained(cli):
    done = cli("train", "CartPole-v1:ppo", *TINY, "--budget", "1k", "--full-budget", "--run-id", "one", "--json")
    assert done.code == 0, done.err
    cli.result = json.loads(done.out.splitlines()[-1])
    return cli


def run_of(cli, name):
    return RunPaths(cli.folder / "runs" / name)


def test_train_ends_with_one_json_object(trained):
    result = trained.result
    assert list(result) == [
        "run_id",
        "run_dir",
        "status",
        "stop_reason",
        "env_steps",
        "vec_steps",
        "updates",
        "seconds",
        "solved",
        "eval",
        "checkpoint",
        "eval_source",
    ]
    # 1k env_steps are 15.6 updates of 4 x 16: the run ends at the first boundary at or after the budget.
    assert (result["updates"], result["vec_steps"], result["env_steps"]) == (16, 256, 1024)
    assert result["eval"]["greedy"].keys() == {"mean", "std", "n", "low", "high", "iqm"}
    assert result["stop_reason"] == "budget"


def test_the_run_directory_holds_what_the_design_says(trained):
    paths = run_of(trained, "one")
    names = {path.name for path in paths.root.iterdir()}
    assert {"manifest.json", "recipe.yaml", "metrics.db", "checkpoints", "status.json"} <= names
    folder = paths.checkpoints / "1024"
    assert {path.name for path in folder.iterdir()} == {"policy.safetensors", "state.safetensors", "checkpoint.json"}
    index = json.loads(paths.checkpoint_index.read_text())
    assert index["last"] == "1024"
    assert index["best"] in {path.name for path in paths.checkpoints.iterdir()}
    manifest = json.loads(paths.manifest.read_text())
    assert manifest["seed"] == 0
    assert manifest["engine"]["engine"] == "jax"
    assert json.loads((trained.folder / "runs/registry.json").read_text())[0]["id"] == "one"
    assert unportable_names(str(path.relative_to(paths.root.parent)) for path in paths.root.rglob("*")) == []


def test_the_sidecar_holds_the_stores_row(trained):
    paths = run_of(trained, "one")
    loaded = load_checkpoint(paths, "last")
    with MetricsReader(paths.metrics) as reader:
        row = reader.row(16)
    stored = {name: value for name, value in loaded.info["metrics"].items() if not math.isnan(value)}
    assert stored
    assert {name: row[name] for name in stored} == stored
    assert stored["eval/greedy_mean"] == trained.result["eval"]["greedy"]["mean"]


def test_every_row_carries_the_clocks_the_schedules_and_progress(trained):
    with MetricsReader(run_of(trained, "one").metrics) as reader:
        names = ["updates", "vec_steps", "env_steps", "gradient_steps", "opt/gradient_steps", "hp/learning_rate"]
        rows = reader.read([*names, "hp/clip_range", "time/progress"])
    assert rows["updates"].tolist() == list(range(1, 17))
    assert rows["env_steps"].tolist() == [64 * u for u in range(1, 17)]
    assert rows["vec_steps"].tolist() == [16 * u for u in range(1, 17)]
    assert rows["gradient_steps"].tolist() == np.cumsum(rows["opt/gradient_steps"]).tolist()
    assert rows["gradient_steps"][-1] > 0
    assert rows["time/progress"][-1] == 1.0
    # lin_1e-3 over a horizon of 1000 env_steps: update u (from 0) starts at progress u * 64 / 1000.
    expected = [1e-3 * (1 - u * 64 / 1000) for u in range(16)]
    assert rows["hp/learning_rate"].tolist() == pytest.approx(expected, rel=1e-6)


def test_eval_prints_both_ways_of_acting(trained):
    done = trained("eval", "one/last", "--episodes", "3", "--json")
    told = json.loads(done.out)
    assert told["run_id"] == "one"
    assert told["checkpoint"] == "1024"
    assert told["eval"]["greedy"]["n"] == told["eval"]["sampled"]["n"] == 3
    again = json.loads(trained("eval", "one/last", "--episodes", "3", "--json").out)
    assert again == told
    assert "next: gymlab" in trained("eval", "@last", "--episodes", "2").out


def test_a_finished_run_says_how_to_extend_it_and_a_larger_budget_does(trained):
    done = trained("resume", "one")
    assert done.code == 0
    assert "gymlab resume one --budget 2048" in done.out
    more = trained("resume", "one", "--budget", "2048", "--json")
    assert json.loads(more.out.splitlines()[-1])["env_steps"] == 2048
    with MetricsReader(run_of(trained, "one").metrics) as reader:
        rates = reader.read(["hp/learning_rate"])["hp/learning_rate"]
    assert len(rates) == 32
    assert rates[-1] == 0.0  # the old horizon is kept
    alerts = json.loads(run_of(trained, "one").alerts.read_text())["alerts"]
    assert [alert for alert in alerts if alert["severity"] == "critical"] == []  # that less of it is done is no fault


def test_an_earlier_checkpoint_forks_a_new_run_that_goes_the_same_way(trained):
    paths = run_of(trained, "one")
    middle = sorted(steps(paths))[-2]
    done = trained("train", "--resume", f"one/{middle}", "--run-id", "two", "--json")
    assert done.code == 0, done.err
    assert json.loads(run_of(trained, "two").manifest.read_text())["forked_from"] == f"one/{middle}"
    ours, theirs = load_checkpoint(run_of(trained, "two"), "last"), load_checkpoint(paths, "last")
    assert all(ours.state[name].tobytes() == theirs.state[name].tobytes() for name in theirs.state)
    assert metric_rows(paths.root) == metric_rows(run_of(trained, "two").root)


def test_changes_on_resume_are_printed_and_kept(trained):
    done = trained("resume", "one", "learning_rate=1e-4", "--budget", "1280", "--no-optimizer")
    assert "changed ppo.learning_rate: lin_1e-3 -> 0.0001" in done.out
    assert "resumed (not exact)" in done.out
    session = json.loads(run_of(trained, "one").manifest.read_text())["sessions"][0]
    assert session["resumed_at"] == 1024
    assert not session["exact"]
    assert any(change[0] == "ppo.learning_rate" for change in session["changes"])
    assert "learning_rate: 0.0001" in run_of(trained, "one").recipe.read_text()
    assert "the optimiser starts anew (--no-optimizer)" in (run_of(trained, "one").root / "report.md").read_text()


def test_a_policy_can_be_taken_from_another_run(trained):
    short = ["policy.hidden=[8]", "n_envs=4", "learning_rate=0", "eval.final_episodes=2", "--budget", "20"]
    done = trained("train", "CartPole-v1:a2c", *short, "--full-budget", "--init-from", "one/last", "--run-id", "two")
    assert done.code == 0, done.err
    mine, theirs = (load_checkpoint(run_of(trained, name), "last").policy for name in ("two", "one"))
    assert all(mine[name].tobytes() == theirs[name].tobytes() for name in theirs)
    wrong = trained(
        "train", "CartPole-v1:ppo", *TINY[:-1], "policy.hidden=[9]", "--init-from", "one", "--run-id", "three"
    )
    assert wrong.code == 2
    assert "policy.hidden: [8] -> [9] has other weights" in wrong.err
    assert not (trained.folder / "runs/three").exists()


def test_no_update_follows_the_stop(cli):
    done = cli(
        "train", "CartPole-v1:ppo", *TINY, "stop.eval_return=1", "stop.train_return=100000", "--json", "--run-id", "s"
    )
    result = json.loads(done.out.splitlines()[-1])
    assert result["stop_reason"].startswith("solved: eval_return")
    with MetricsReader(run_of(cli, "s").metrics) as reader:
        assert reader.last()["updates"] == result["updates"]
    wide = ["n_envs=64", "batch_size=64", "stop.train_return=12", "stop.eval_return=1e6"]
    early = cli("train", "CartPole-v1:ppo", *TINY, *wide, "--json", "--run-id", "t")
    result = json.loads(early.out.splitlines()[-1])
    assert result["stop_reason"].startswith("train_return")
    with MetricsReader(run_of(cli, "t").metrics) as reader:
        rows = reader.read(["updates", "roll/return_mean", "roll/return_window"])
    assert rows["updates"][-1] == result["updates"]
    reached = (rows["roll/return_mean"] >= 12) & (rows["roll/return_window"] >= 100)
    assert reached.tolist() == [False] * (len(reached) - 1) + [True]


def test_jsonl_streams_events(cli):
    done = cli("train", "CartPole-v1:ppo", *TINY, "--budget", "200", "--full-budget", "--jsonl")
    lines = [json.loads(line) for line in done.out.splitlines()]
    kinds = [line.get("event", "result") for line in lines]
    assert kinds[0] == "ready"
    assert kinds[-2:] == ["ended", "result"]
    assert {"started", "updated", "evaluated", "checkpoint"} <= set(kinds)


def test_quiet_prints_nothing(cli):
    assert cli("train", "CartPole-v1:ppo", *TINY, "--budget", "100", "--full-budget", "-q").out == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["CartPole-v9"], "did you mean 'CartPole-v1'?"),
        (["CartPole-v1:pro"], "did you mean 'ppo'?"),
        (["CartPole-v1", "lerning_rate=1"], "did you mean 'learning_rate'?"),
        (["CartPole-v1", "learning_rate=fast"], "neither a number nor a schedule"),
        (["CartPole-v1", "batch_size=100"], "does not divide the rollout of 256 steps (8 envs x 32): try 64 or 128"),
        (["CartPole-v1", "--budget", "-5"], "budget"),
        (["CartPole-v1", "--run-id", "../evil"], "../evil"),
        (["CartPole-v1", "--engine", "jacks"], "jax"),
        (["LunarLander-v3", "--engine", "jax"], "use engine: auto"),
        (["--resume", "nothing"], "nothing"),
    ],
)
def test_a_mistake_gives_one_message_exit_code_2_and_no_run(cli, arguments, told):
    done = cli("train", *arguments)
    assert done.code == 2
    assert told in done.err
    assert not list((cli.folder / "runs").glob("*/manifest.json"))


def test_a_registered_env_without_a_recipe_or_a_time_limit_trains(cli):
    done = cli(
        "train",
        "CliffWalking-v1:ppo",
        "--budget",
        "600",
        "policy.hidden=[8]",
        "n_envs=4",
        "n_steps=16",
        "batch_size=32",
        "epochs=1",
        "eval.episodes=2",
        "eval.final_episodes=2",
        "--json",
    )
    assert done.code == 0, done.err


def test_a_users_own_env_trains_without_a_recipe(cli):
    done = cli(
        "train",
        "tests.example_envs:Custom-v0",
        "--budget",
        "256",
        "policy.hidden=[8]",
        "n_envs=4",
        "n_steps=16",
        "batch_size=32",
        "eval.episodes=2",
        "eval.final_episodes=2",
    )
    assert done.code == 0, done.err
    assert "defaults chosen from its spaces" in done.out


def test_env_processes_give_the_same_run_as_this_process(cli):
    arguments = ["train", "CartPole-v1:ppo", *TINY, "--budget", "512", "--full-budget", "--engine", "gymnasium"]
    assert cli(*arguments, "vectorization=sync", "--run-id", "a").code == 0
    assert cli(*arguments, "vectorization=processes", "--run-id", "b").code == 0
    assert_same_run(cli.folder / "runs/a", cli.folder / "runs/b")


def test_starting_the_command_line_imports_neither_jax_nor_gymnasium():
    code = (
        "import sys, gymlab.cli.main; print([m for m in ('jax', 'gymnasium', 'numpy', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert done.stdout.strip() == "[]"


def test_checkpoints_are_named_by_the_clock_of_the_first_budget(cli):
    tiny = [setting for setting in TINY if setting != "eval.every=50%"]
    done = cli("train", "Bandit-v0:ppo", *tiny, "--budget", "32 vec_steps", "--full-budget", "--run-id", "v", "-q")
    assert done.code == 0
    paths = RunPaths(cli.folder / "runs" / "v")
    assert files.read_json(paths.manifest)["checkpoint_clock"] == "vec_steps"
    assert read_index(paths)["last"] == "32"
    assert load_checkpoint(paths).info["clock"]["env_steps"] == 128
    assert cli("resume", "v", "--budget", "256 env_steps", "--full-budget", "-q").code == 0  # another clock
    assert files.read_json(paths.manifest)["checkpoint_clock"] == "vec_steps"
    assert read_index(paths)["last"] == "64"
    assert json.loads(cli("eval", "v/64", "--episodes", "1", "--json").out)["checkpoint"] == "64"
    assert "(at vec_steps " in cli("report", "v").out
    unknown = cli("eval", "v/256")
    assert unknown.code == 2
    assert "no checkpoint '256'" in unknown.err
