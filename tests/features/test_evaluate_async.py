"""Evaluation beside training gives what evaluation in between gives, whatever is killed on the way."""

import json
import math
import os
import signal
import subprocess

import numpy as np
import pytest

from gymlab.metrics.catalogue import reproducible
from gymlab.runs.checkpoints import load_checkpoint, read_index, steps
from gymlab.runs.manifest import read_manifest
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.session.build import load_run
from tests.running import assert_same_run, gymlab, metric_rows, start
from tests.waiting import wait_until, wait_until_gone

TINY = ["n_envs=8", "n_steps=32", "batch_size=128", "epochs=4", "policy.hidden=[16,16]"]
TINY += ["metrics.statistics=basic"]
SHORT = ["eval.episodes=4", "eval.final_episodes=6", "eval.every=10%"]
RUN = ["CartPole-v1:ppo", *TINY, *SHORT, "--budget", "60k", "--full-budget"]
ASIDE = "eval.mode=async"


def evaluations(run):
    with MetricsReader(RunPaths(run).metrics) as reader:
        values = reader.read(["updates", "env_steps", "eval/greedy_mean", "eval/sampled_mean"])
    seen = ~np.isnan(values["eval/greedy_mean"])
    return {name: column[seen] for name, column in values.items()}


def children(pid):
    command = ["pgrep", "-P", str(pid), "-f", "gymlab.session.evaluator"]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def awaited(run):
    """What the newest checkpoint's run was waiting for."""
    if not any(run.checkpoints.glob("[0-9]*")):
        return None
    return load_checkpoint(run).info["features"]["evaluate_async"]["pending"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run, evaluated in both ways."""
    folder = tmp_path_factory.mktemp("whole")
    for mode in ("sync", "async"):
        gymlab("train", *RUN, f"eval.mode={mode}", "--run-id", mode, cwd=folder)
    return folder / "runs"


def test_both_ways_store_the_same_rows_and_learn_the_same(whole):
    here, aside = metric_rows(whole / "sync"), metric_rows(whole / "async")
    assert here.keys() == aside.keys()
    assert [name for name in here if here[name] != aside[name]] == []
    for which in ("last", "best"):
        one, two = (load_checkpoint(RunPaths(whole / mode), which) for mode in ("sync", "async"))
        assert one.path.name == two.path.name
        assert all(one.policy[name].tobytes() == two.policy[name].tobytes() for name in one.policy)


def test_every_checkpoint_holds_the_stores_row_also_what_was_measured_late(whole):
    paths = RunPaths(whole / "async")
    evaluated = 0
    with MetricsReader(paths.metrics) as reader:
        for step in filter(None, steps(paths)):
            info = load_checkpoint(paths, str(step)).info
            row = reader.row(info["clock"]["updates"])
            measured = {name: value for name, value in info["metrics"].items() if not math.isnan(value)}
            assert measured == reproducible(row)
            evaluated += "eval/greedy_mean" in measured
    assert evaluated >= 2


def test_how_the_cores_are_shared_stands_in_the_manifest(whole):
    here, aside = (read_manifest(RunPaths(whole / mode))["evaluation"] for mode in ("sync", "async"))
    cores = len(os.sched_getaffinity(0))
    assert here == {"mode": "sync", "trainer_cores": cores}
    assert aside == {"mode": "async", "trainer_cores": cores, "evaluator_cores": cores, "pinned": False, "nice": 5}


def test_what_training_waited_for_results_is_a_metric(whole):
    with MetricsReader(RunPaths(whole / "async").metrics) as reader:
        waits = reader.read(["time/evaluate_wait"])["time/evaluate_wait"]
    assert np.isfinite(waits).sum() == 9  # at each boundary but the first, and at the end
    assert np.nanmin(waits) >= 0


@pytest.mark.slow
def test_killed_while_it_waits_for_a_result_a_run_goes_on_exactly(folder, whole):
    process = start("train", *RUN, ASIDE, "--run-id", "killed", cwd=folder)
    run = RunPaths(folder / "runs/killed")
    wait_until(lambda: awaited(run), process=process)
    examiner = children(process.pid)[0]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert awaited(run) is not None
    wait_until_gone([examiner])
    assert "resumed (exact)" in gymlab("resume", "killed", cwd=folder).stdout
    assert_same_run(whole / "async", run.root)


@pytest.mark.parametrize("moment", ["asked", pytest.param("started", marks=pytest.mark.slow)])
def test_a_killed_evaluation_process_is_started_again_and_changes_nothing(moment, folder, whole):
    process = start("train", *RUN, ASIDE, "--run-id", "one", cwd=folder)
    run = RunPaths(folder / "runs/one")
    wait_until(lambda: children(process.pid) and (moment == "started" or awaited(run)), process=process)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "the evaluation process died" in (folder / "runs/one/run.log").read_text()
    assert_same_run(whole / "async", folder / "runs/one")


def last_row_and_status(run):
    with MetricsReader(RunPaths(run).metrics) as reader:
        return int(reader.last()["updates"]), read_status(RunPaths(run))


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (["stop.eval_return=20", "eval.mode=sync"], "solved: eval_return"),
        (["stop.eval_return=20", ASIDE], "solved: eval_return"),
        (["stop.eval_return=20", "stop.confirm=false", "eval.mode=sync"], "solved: eval_return"),
        (["stop.train_return=20"], "train_return"),
        (["stop.plateau=1", "stop.plateau_delta=1000", "stop.eval_return=501"], "plateau: 1 evaluations"),
        (["stop.seconds=0.01", "stop.eval_return=501"], "seconds"),
        (["stop.eval_return=501", "--budget", "6k"], "budget"),
    ],
    ids=["solved", "solved aside", "unconfirmed", "train return", "plateau", "seconds", "budget"],
)
def test_no_row_follows_the_one_at_which_a_run_was_stopped(rule, reason, folder, cli):
    done = cli("train", "CartPole-v1:ppo", *TINY, *SHORT, "--budget", "60k", "--run-id", "one", *rule, "--json")
    assert done.code == 0, done.err
    updates, status = last_row_and_status(folder / "runs/one")
    told = json.loads(done.out.strip().splitlines()[-1])
    assert status["stop_reason"].startswith(reason)
    assert told["stop_reason"] == status["stop_reason"]
    assert updates == told["updates"] == status["clock"]["updates"]
    if reason != "budget":
        assert told["env_steps"] < 60_000


def test_stopped_aside_a_run_ends_with_the_confirmed_checkpoint(folder, cli):
    stop = ["stop.eval_return=20", "--budget", "60k"]
    done = cli("train", "CartPole-v1:ppo", *TINY, *SHORT, *stop, ASIDE, "--run-id", "one", "--json")
    told, run = json.loads(done.out.strip().splitlines()[-1]), RunPaths(folder / "runs/one")
    best = read_index(run)["best"]
    assert told["checkpoint"] == best
    assert int(best) < told["env_steps"]  # it took effect at the boundary after its own
    assert told["solved"] is False  # 20 is not what CartPole calls solved
    with MetricsReader(run.metrics) as reader:
        taken = reader.read(["time/evaluate"])["time/evaluate"]
    assert (taken[np.isfinite(taken)] > 0).all()  # the confirmation's row keeps the time of both
    parts, policy, _ = load_run(run, "best")
    try:
        seen = evaluations(run.root)
        again = parts.evaluate(policy, "periodic", parts.recipe.eval.seed)
    finally:
        parts.program.close()
    at = list(seen["env_steps"]).index(int(best))
    assert told["eval"]["greedy"]["n"] == 6
    assert seen["eval/greedy_mean"][at] == pytest.approx(told["eval"]["greedy"]["mean"])
    assert again.greedy.n == 4


@pytest.mark.parametrize("mode", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_evaluation_begins_where_training_has_come_part_of_the_way(mode, folder, cli):
    """A fifth of the way to 500 is a training return of 100, reached within these 60k steps but not at once."""
    done = cli("train", *RUN, "eval.start_at=0.2", f"eval.mode={mode}", "--run-id", "one")
    assert done.code == 0, done.err
    with MetricsReader(RunPaths(folder / "runs/one").metrics) as reader:
        rows = reader.read(["env_steps", "roll/return_mean", "eval/greedy_mean"])
    evaluated = ~np.isnan(rows["eval/greedy_mean"])
    boundaries = rows["env_steps"] % 6000 < 256
    assert not evaluated[rows["roll/return_mean"] < 100].any()
    assert evaluated.sum() >= 2
    assert (boundaries & (rows["roll/return_mean"] < 100)).any(), "training was good from the start"


@pytest.mark.slow
def test_a_hundred_results_under_heavy_updating_are_those_of_their_checkpoints(folder):
    """Every evaluated checkpoint is kept, and scored again here afterwards."""
    heavy = ["n_envs=16", "n_steps=64", "batch_size=64", "epochs=20", "policy.hidden=[64,64]"]
    cadence = ["eval.every=1%", "eval.episodes=10", "checkpoints.every=1%", "checkpoints.keep=1000"]
    gymlab("train", "CartPole-v1:ppo", *heavy, *cadence, "--budget", "512k", "--full-budget", ASIDE,
           "--run-id", "one", cwd=folder)  # fmt: skip
    run = RunPaths(folder / "runs/one")
    seen, compared = evaluations(run.root), 0
    parts, _, _ = load_run(run, "last")
    try:
        names = ("env_steps", "eval/greedy_mean", "eval/sampled_mean")
        for env_steps, greedy, sampled in zip(*(seen[name] for name in names), strict=True):
            _, policy, _ = load_run(run, str(int(env_steps)))
            again = parts.evaluate(policy, "periodic", parts.recipe.eval.seed)
            if env_steps < seen["env_steps"][-1]:  # the last one is the final evaluation, of more episodes
                assert (again.greedy.mean, again.sampled.mean) == (greedy, sampled)
                compared += 1
    finally:
        parts.program.close()
    assert compared >= 99
