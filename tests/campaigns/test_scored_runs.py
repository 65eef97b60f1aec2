"""`gymlab results` and `gymlab compare` from end to end, with trainings too small to learn anything."""

import json
import os
import signal
import subprocess
import sys

import pytest

from gymlab.campaigns.benchmark_table.record import read_record
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from tests.running import environment
from tests.waiting import wait_until

TINY = (
    "n_envs=2, n_steps=8, batch_size=8, epochs=1, 'policy.hidden=[4]', metrics.statistics=basic, "
    "eval.episodes=2, eval.final_episodes=2"
)
ROW = f"{{recipe: 'FrozenLake-v1:ppo', name: tiny, set: [{TINY}], budget: '32', mark: 0.5}}"


def write_plan(folder, *rows, seeds=1):
    (folder / "results").mkdir(exist_ok=True)
    text = f"seeds: {seeds}\nepisodes: 10\nrows:\n" + "".join(f"  - {row}\n" for row in rows)
    (folder / "results" / "plan.yaml").write_text(text, encoding="utf-8")


def runs_of(folder):
    return sorted(path.name for path in (folder / "runs").iterdir() if (path / "manifest.json").is_file())


def test_a_campaign_trains_scores_and_keeps_what_is_done(cli):
    write_plan(cli.folder, ROW)
    done = cli("results", "run", "--json")
    assert done.code == 0, done.err
    (line,) = json.loads(done.out)
    (run,) = line["runs"]
    assert line["judged"] == "exact"
    assert line["score"]["iqm"] == run["exact"]
    assert (run["greedy"]["n"], run["sampled"]["n"], run["env_steps"], run["stop_reason"]) == (10, 10, 32, "budget")
    assert line["verdict"] == "below"
    (run_id,) = runs_of(cli.folder)
    file = cli.folder / "results" / "tiny" / "seed-0.json"
    kept = file.read_bytes()

    again = cli("results", "run")
    assert "nothing to do" in again.err
    file.unlink()
    assert cli("results", "run").code == 0  # from the run's own record: nothing is trained or scored
    assert file.read_bytes() == kept
    assert runs_of(cli.folder) == [run_id]

    shown = cli("results", "show", "tiny")
    assert "below" in shown.out
    write_plan(cli.folder, ROW.replace("epochs=1", "epochs=2"))
    stale = cli("results", "show")
    assert "stale: tiny seed 0: ppo.epochs: 1 -> 2" in stale.out

    both = cli("compare", run_id, run_id, "--episodes", 10, "--json")
    assert both.code == 0, both.err
    told = json.loads(both.out)
    assert told["score"]["difference_shown"] is False
    assert "too few runs to say" in told["verdicts"][0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["results", "show"], "there is no plan"),
        (["compare", "CartPole-v1:ppo", "n_env=3"], "unknown key"),
        (["compare", "CartPole-v1:ppo", "CartPole-v1:pp"], "unknown variant"),
        (["compare", "CartPole-v1:ppo", "nothing"], "neither a run nor a recipe"),
        (["compare", "CartPole-v1:ppo", "one,two"], "unknown run 'one'"),
        (["compare", "group:x", "CartPole-v1:ppo"], "no run has a group"),
        (["compare", "CartPole-v1:ppo", "CartPole-v1:a2c", "--seeds", "0"], "--seeds: expected a number of seeds"),
        (["compare", "CartPole-v1:ppo", ""], "one side of the comparison is empty"),
    ],
)
def test_what_cannot_be_compared_is_told_before_anything_is_trained(cli, arguments, told):
    done = cli(*arguments)
    assert done.code == 2
    assert told in done.err
    assert not (cli.folder / "runs").exists()


def test_a_comparison_says_first_what_it_would_train(cli):
    done = cli("compare", "CartPole-v1:ppo", "learning_rate=3e-3", "--seeds", "2", "--dry")
    assert done.code == 0
    assert "4 runs to train" in done.err
    assert "CartPole-v1:ppo learning_rate=3e-3 seed 1" in done.out
    assert not (cli.folder / "runs").exists()
    two = cli("compare", "CartPole-v1:ppo policy.hidden=[8,8]", "CartPole-v1:ppo policy.hidden=[4,4]", "--dry")
    assert "CartPole-v1:ppo policy.hidden=[4,4] seed 4" in two.out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_campaign_goes_on_where_it_was(folder, number):
    write_plan(folder, ROW.replace("'32'", "'20000'"), seeds=2)
    command = [sys.executable, "-m", "gymlab", "results", "run", "--jobs", "2"]
    first = subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)
    wait_until(lambda: (folder / "runs").is_dir() and len(runs_of(folder)) == 2)
    wait_until(lambda: all(read_status(RunPaths(folder / "runs" / run)).get("clock") for run in runs_of(folder)))
    os.kill(first.pid, number)
    _, told = first.communicate(timeout=60)
    if number == signal.SIGINT:
        assert first.returncode == 130
        assert "goes on" in told
        assert {read_status(RunPaths(folder / "runs" / run))["status"] for run in runs_of(folder)} == {"stopped"}
    second = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert second.returncode == 0, second.stderr
    assert ("goes on" if number == signal.SIGINT else "trains elsewhere: waiting") in second.stderr
    assert len(runs_of(folder)) == 2
    records = [read_record(folder / "results" / "tiny" / f"seed-{seed}.json") for seed in (0, 1)]
    assert [(r.env_steps, r.status, r.cores) for r in records] == [(20000, "finished", 1)] * 2


@pytest.mark.slow
def test_a_comparison_trains_what_is_missing_and_a_failure_is_told(folder):
    tiny = [word.strip("' ") for word in TINY.split(", ")]
    sets = [word for item in [*tiny, "budget=64"] for word in ("--set", item)]
    command = [
        sys.executable,
        "-m",
        "gymlab",
        "compare",
        "FrozenLake-v1:ppo",
        "gamma=0.9",
        "--seeds",
        "2",
        "--jobs",
        "2",
    ]
    command += ["--episodes", "10", *sets]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "4 runs to train" in done.stderr
    assert "B: FrozenLake-v1:ppo gamma=0.9 (2 runs)" in done.stdout
    assert "too few runs to say" in done.stdout
    again = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert again.stdout == done.stdout
    assert "to train" not in again.stderr
