"""Sweeps from start to end: by one process, killed, resumed, and by two."""

import json
import os
import signal
import time
from dataclasses import replace

import pytest

from gymlab.campaigns.executors.pool import Pool
from gymlab.campaigns.executors.protocol import RunProgressed
from gymlab.campaigns.executors.vmapped import VmappedExecutor
from gymlab.campaigns.sweep.plan import SweepOptions, make_plan, reuse_plan, write_plan
from gymlab.campaigns.sweep.runner import SweepRunner
from gymlab.campaigns.sweep.store import create_store, open_store
from gymlab.campaigns.sweep.sweep_status import results
from gymlab.core.errors import UserError
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_status
from tests.campaigns.sweeping import RATES, TINY, SilentObserver, begin, here, journal, trials
from tests.running import gymlab, last_json


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def journal_says(runs, name, text):
    path = runs / ".sweeps" / name / "journal.log"
    return path.exists() and text in path.read_text()


def test_four_trials_are_real_runs_and_the_best_is_the_journals(cli, folder):
    words = [*RATES, "--trials", 4, "--budget", 256, "--name", "four", "--seeds", 2, "--workers", 1]
    told = json.loads(cli("sweep", *TINY, *words, "--json").out)
    assert told["status"] == "finished"
    assert told["trials"] == {"total": 4, "finished": 4, "pruned": 0, "failed": 0, "running": 0, "waiting": 0}
    assert [row["runs"] for row in told["rows"]] == [[f"four-t{i:03d}-s0", f"four-t{i:03d}-s1"] for i in range(4)]
    study = journal(folder / "runs", "four")
    assert len(study.trials) == 4
    assert study.best_trial.user_attrs["index"] == told["best"]["trial"]
    assert study.best_value == told["best"]["value"] == max(row["value"] for row in told["rows"])
    entries = Registry(folder / "runs").runs()
    assert {entry["group"] for entry in entries} == {"four"}
    assert len(entries) == 8
    assert json.loads(cli("sweep", "status", "four", "--json").out)["best"] == told["best"]
    listed = cli("sweep", "results", "four").out
    assert "4 finished" in listed
    assert told["best"]["overrides"][0] in listed


@pytest.mark.slow
@pytest.mark.parametrize("when", ["put in", "running", "finished"])
def test_a_killed_sweep_goes_on_without_losing_or_repeating_a_trial(folder, pools, when):
    words = [*RATES, "--trials", 3, "--budget", 2048, "--name", "kill", "--batch", 2, "--workers", 1]
    whole = here(folder / "whole", pools[2], trials=3, budget="2048", name="kill", batch=2)
    runs = folder / "runs"
    marks = {
        "put in": lambda: journal_says(runs, "kill", '"index"'),
        "running": lambda: any(runs.glob("kill-t000-s0/checkpoints/[1-9]*")),
        "finished": lambda: journal_says(runs, "kill", '"scores"'),
    }
    with begin(folder, *words) as process:
        wait_for(marks[when])
        process.kill()
    told = here(runs, pools[2], trials=3, budget="2048", name="kill", batch=2)
    assert trials(told) == trials(whole)
    study = journal(runs, "kill")
    assert len(study.trials) == 3
    assert study.best_trial.user_attrs["index"] == told["best"]["trial"]
    assert len(Registry(runs).runs()) == 3


@pytest.mark.slow
def test_two_processes_share_a_sweep_and_do_no_trial_twice(folder, pools):
    words = [*RATES, "--trials", 6, "--budget", 4096, "--name", "two", "--method", "random", "--workers", 1]
    with begin(folder, *words) as first:
        wait_for(lambda: journal_says(folder / "runs", "two", '"owner"'))
        store = open_store(folder / "runs", "two", None)
        assert SweepRunner(folder / "runs", store, SilentObserver(), ()).run(pools[1])
        assert first.wait(60) == 0
    told = results(store.plan, store.trials())
    assert told["trials"]["finished"] == 6
    study = journal(folder / "runs", "two")
    assert sorted(trial.user_attrs["index"] for trial in study.trials) == list(range(6))
    owners = [trial.user_attrs["owner"]["pid"] for trial in study.trials]
    assert len(set(owners)) == 2
    sessions = [json.loads(p.read_text())["sessions"] for p in (folder / "runs").glob("two-*/status.json")]
    assert sessions == [1] * 6
    alone = here(folder / "alone", pools[2], trials=6, budget="4096", name="two", method="random")
    assert trials(alone) == trials(told)


@pytest.mark.slow
def test_a_run_whose_worker_dies_goes_on_with_another(tmp_path):
    class Killer(SilentObserver):
        killed = 0

        def on_report(self, trial, seed, report):
            if isinstance(report, RunProgressed) and report.env_steps > 1000 and not self.killed:
                self.killed = read_status(RunPaths(tmp_path / f"dies-t{trial:03d}-s{seed}"))["pid"]
                os.kill(self.killed, signal.SIGKILL)

    plan, _ = make_plan(
        SweepOptions(TINY[0], tuple(TINY[1:]), (RATES[1],), name="dies", trials=1, budget="100k"), tmp_path
    )
    store, watch = create_store(tmp_path, plan), Killer()
    with Pool(1) as pool:
        assert SweepRunner(tmp_path, store, watch, ()).run(pool)
    assert watch.killed
    (row,) = store.trials()
    assert (row.state, row.env_steps) == ("finished", 100_000)


@pytest.mark.slow
def test_a_signal_ends_it_in_order_and_resume_goes_on(folder):
    with begin(folder, *RATES, "--trials", 2, "--budget", 32_768, "--name", "sig") as process:
        wait_for(lambda: any((folder / "runs").glob("sig-t000-s0/checkpoints/[1-9]*")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert last_json(gymlab("sweep", "status", "sig", "--json", cwd=folder))["status"] == "interrupted"
    told = last_json(gymlab("sweep", "resume", "sig", "--json", cwd=folder))
    assert told["trials"]["finished"] == 2
    assert [row["env_steps"] for row in told["rows"]] == [32_768, 32_768]


@pytest.mark.parametrize(
    "method", [pytest.param("grid", marks=pytest.mark.slow), pytest.param("random", marks=pytest.mark.slow), "tpe"]
)
def test_a_seed_reproduces_trials_and_values(tmp_path, pools, method):
    space = ("ppo.learning_rate=1e-4,1e-3,1e-2",) if method == "grid" else (RATES[1],)
    options = {"space": space, "method": method, "trials": 3, "batch": 2, "budget": "512", "name": "same", "seed": 3}
    one, two = (here(tmp_path / str(size), pools[size], **options) for size in (1, 2))
    assert trials(one) == trials(two)
    assert len({tuple(row["overrides"]) for row in one["rows"]}) == 3


@pytest.mark.parametrize("prune", ["halving", pytest.param("median", marks=pytest.mark.slow)])
def test_pruning_gives_the_same_trials_up_however_many_work(tmp_path, pools, prune):
    options = {"method": "random", "trials": 6, "budget": "1152", "prune": prune, "name": "pruned"}
    options["batch"] = 3 if prune == "median" else 6
    one, two = (here(tmp_path / str(size), pools[size], **options) for size in (1, 2))
    assert trials(one) == trials(two)
    counts = one["trials"]
    assert counts["finished"] + counts["pruned"] == 6
    assert counts["pruned"] > 0
    assert all(row["env_steps"] < 1152 for row in one["rows"] if row["state"] == "pruned")
    if prune == "halving":  # one of three goes on from a rung: 6, 2, and at least 1
        assert [sum(str(rung) in row["rungs"] for row in one["rows"]) for rung in (0, 1)] == [6, 2]
        at_first = sorted((row["rungs"]["0"] for row in one["rows"]), reverse=True)
        assert sorted((row["rungs"]["0"] for row in one["rows"] if "1" in row["rungs"]), reverse=True) == at_first[:2]


def test_a_trial_that_paused_at_rungs_is_the_run_that_did_not(tmp_path, pools):
    one = here(tmp_path / "rungs", pools[2], trials=2, budget="1152", prune="halving", name="a", method="random")
    two = here(tmp_path / "whole", pools[2], trials=2, budget="1152", name="a", method="random")
    index = next(row["trial"] for row in one["rows"] if row["state"] == "finished")
    assert one["rows"][index]["value"] == two["rows"][index]["value"]
    states = [
        load_checkpoint(RunPaths(tmp_path / kind / f"a-t{index:03d}-s0"), "last").state for kind in ("rungs", "whole")
    ]
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[1])


def test_every_trial_starts_from_the_policy_of_a_run(tmp_path, pools):
    source = here(tmp_path, pools[2], trials=1, budget="256", name="source")["rows"][0]["runs"][0]
    told = here(tmp_path, pools[2], trials=2, budget="256", name="fork", init_from=f"{source}/last")
    assert told["trials"]["finished"] == 2
    for row in told["rows"]:
        assert f"policy taken from {source}/256" in (tmp_path / row["runs"][0] / "run.log").read_text()


@pytest.mark.slow
def test_vmapped_trials_end_as_others_do(tmp_path):
    told = here(tmp_path, VmappedExecutor(), trials=3, budget="256", name="vm", method="random", vmap=True)
    assert [row["state"] for row in told["rows"]] == ["finished"] * 3


@pytest.mark.slow
def test_a_trial_whose_values_do_not_go_together_fails_alone(tmp_path, pools):
    space = ("n_steps=16,24", "ppo.batch_size=32,48")
    told = here(tmp_path, pools[2], space=space, method="grid", budget="192", name="odd")
    states = {tuple(row["overrides"]): row["state"] for row in told["rows"]}
    assert states["n_steps=16", "ppo.batch_size=32"] == "finished"
    assert states["n_steps=24", "ppo.batch_size=48"] == "finished"
    assert states["n_steps=16", "ppo.batch_size=48"] == "failed"
    assert "does not divide" in next(row["reason"] for row in told["rows"] if row["state"] == "failed")


@pytest.mark.slow
def test_a_database_holds_a_sweep_as_the_journal_does(tmp_path, pools):
    url = f"sqlite:///{tmp_path}/sweep.db"
    one = here(tmp_path / "a", pools[2], trials=2, budget="64", name="db", storage=url)
    two = here(tmp_path / "b", pools[2], trials=2, budget="64", name="db")
    assert trials(one) == trials(two)
    store = open_store(tmp_path / "elsewhere", "db", url)  # another machine: it has the plan from the database
    assert [row.value for row in store.trials()] == [row["value"] for row in one["rows"]]
    with pytest.raises(UserError, match="no sweep 'other'"):
        open_store(tmp_path / "elsewhere", "other", url)


def test_another_sweep_of_the_same_name_is_refused(tmp_path):
    options = SweepOptions("CartPole-v1:ppo", (), (RATES[1],), name="mine")
    plan, _ = make_plan(options, tmp_path)
    write_plan(tmp_path, plan)
    assert reuse_plan(make_plan(options, tmp_path)[0], tmp_path) == plan  # the same command goes on
    with pytest.raises(UserError, match=r"another seed: resume it with `gymlab sweep resume mine`"):
        reuse_plan(make_plan(replace(options, seed=1), tmp_path)[0], tmp_path)


def test_a_line_that_was_half_written_is_cut_off_and_all_before_it_is_kept(tmp_path):
    plan, _ = make_plan(SweepOptions("CartPole-v1:ppo", (), (RATES[1],), name="torn", trials=2), tmp_path)
    store = create_store(tmp_path, plan)
    store.add(0, {"ppo.learning_rate": 1e-3}, ("ppo.learning_rate=0.001",))
    journal_file = tmp_path / ".sweeps" / "torn" / "journal.log"
    whole = journal_file.read_bytes()
    journal_file.write_bytes(whole + b'{"op_code": 4, "worker')
    again = create_store(tmp_path, plan)
    assert [row.overrides for row in again.trials()] == [("ppo.learning_rate=0.001",)]
    again.add(1, {"ppo.learning_rate": 1e-2}, ("ppo.learning_rate=0.01",))
    assert len(journal(tmp_path, "torn").trials) == 2


def test_a_trial_has_one_owner_until_that_is_gone(tmp_path):
    plan, _ = make_plan(SweepOptions("CartPole-v1:ppo", (), (RATES[1],), name="own", trials=1), tmp_path)
    mine, other = create_store(tmp_path, plan), create_store(tmp_path, plan)
    mine.add(0, {"ppo.learning_rate": 1e-3}, ("ppo.learning_rate=0.001",))
    assert mine.claim(()).index == 0
    assert other.claim(()) is None
    other.me = replace(other.me, start="before this process")
    assert other.claim((), take_over=True).index == 0  # owned by an earlier process of the same pid
    assert mine.claim(()).index == 0


def test_mistakes_are_told_in_a_line(cli):
    unknown = cli("sweep", "CartPole-v1:ppo", "--space", "ppo.lerning_rate=log:1e-5..1e-2")
    assert (unknown.code, "did you mean 'learning_rate'" in unknown.err) == (2, True)
    method = cli("sweep", "CartPole-v1:ppo", *RATES, "--method", "magic")
    assert (method.code, "grid, random, tpe, cma" in method.err) == (2, True)
    points = cli("sweep", "CartPole-v1:ppo", *RATES, "--method", "grid")
    assert (points.code, ":5" in points.err) == (2, True)
    name = cli("sweep", "status", "nothing")
    assert (name.code, "no sweep 'nothing'" in name.err) == (2, True)
    compiled = cli("sweep", "CartPole-v1:ppo", "--space", "ppo.epochs=4,8", "--vmap")
    assert (compiled.code, "compiled in" in compiled.err) == (2, True)
    assert not os.path.exists("runs")
