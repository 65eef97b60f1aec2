"""Many runs at once: every member is the run it would have been by itself."""

import json
import os
import signal
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from gymlab.campaigns.executors.pool import Pool
from gymlab.campaigns.executors.protocol import RunProgressed
from gymlab.campaigns.executors.vmapped import VmappedExecutor
from gymlab.campaigns.group import GroupOptions, make_group, new_specs, run_group
from gymlab.core.errors import UserError
from gymlab.recipes.resolve import amend, resolve
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.groups import read_group, unfinished
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_status
from gymlab.session.build import build
from gymlab.session.compile_cache import CompileCache, compile_key
from gymlab.session.session import Options
from gymlab.session.start import Continuation, resume, train
from tests.running import assert_same_run, gymlab, start

# Five updates of 2 x 8 steps of a tiny network; one evaluation halfway and one at the end.
TINY = (
    "n_envs=2", "n_steps=8", "batch_size=16", "epochs=2", "policy.hidden=[8]", "metrics.statistics=basic",
    "eval.episodes=2", "eval.final_episodes=2", "eval.every=50%", "stop.eval_return=1000",
)  # fmt: skip
LONG = "100M"  # env_steps: hours


def tiny(*more, budget="80", recipe="CartPole-v1:ppo"):
    return resolve(recipe, [*TINY, *more], budget=budget).recipe


def solo(folder, run_id, seed, recipe, **more):
    train(recipe, Options(seed=seed, run_id=run_id), folder, **more)
    return folder / run_id


def grouped(runs, name, seeds, variations=(), how="processes", budget="80"):
    """A group and its specs."""
    recipe = tiny(budget=budget)
    group = make_group(recipe, seeds, variations, name=name, how=how)
    return group, new_specs(runs, group, group.members, recipe, GroupOptions())


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """One worker trains two seeds, so that one is the second of its process; then two more, which are stopped."""
    runs = tmp_path_factory.mktemp("pooled")
    outcomes = []
    with Pool(1) as pool:
        for name, budget in (("g", "80"), ("long", LONG)):
            group, specs = grouped(runs, name, [3, 4], budget=budget)
            executor = pool if name == "g" else _StoppedOnItsWay(pool)
            outcomes.append(run_group(runs, group, specs, executor, GroupOptions(output="json")))
    return runs, *outcomes


class _StoppedOnItsWay:
    """A signal comes as soon as a member has got somewhere."""

    def __init__(self, pool):
        self.stop, self.submit, self._pool = pool.stop, pool.submit, pool
        self.size, self.description = pool.size, pool.description

    def reports(self):
        for report in self._pool.reports():
            if isinstance(report, RunProgressed):
                self.stop("interrupted by SIGINT")
            yield report


def test_members_of_a_pool_are_byte_equal_to_their_solo_runs(pooled, tmp_path):
    runs = pooled[0]
    for seed in (3, 4):
        assert_same_run(runs / f"g-s{seed}", solo(tmp_path, f"s{seed}", seed, tiny()))
    theirs = json.loads((tmp_path / "s3" / "manifest.json").read_text())
    ours = json.loads((runs / "g-s3" / "manifest.json").read_text())
    assert ours["fingerprint"] == theirs["fingerprint"]
    assert ours["recipe"] == theirs["recipe"]


def test_a_group_is_listed_and_ends_with_its_interquartile_mean_and_every_member(pooled):
    runs, outcome, _ = pooled
    groups = {entry["id"]: entry["group"] for entry in Registry(runs).runs()}
    assert groups == {"g-s3": "g", "g-s4": "g", "long-s3": "long"}
    told = outcome.as_json()
    scores = [member["score"] for member in told["members"]]
    assert [member["seed"] for member in told["members"]] == [3, 4]
    assert {member["status"] for member in told["members"]} == {"finished"}
    assert told["score"]["iqm"] == pytest.approx(np.mean(scores))  # of two none is cut
    assert (told["score"]["low"], told["score"]["high"]) == (min(scores), max(scores))
    assert (told["solved"], told["env_steps"], told["how"], outcome.exit_code) == (0, 160, "processes", 0)
    assert outcome.lines()[-1].startswith("next: gymlab runs show g-s")


def test_a_stop_ends_the_member_under_way_in_order_and_begins_no_other(pooled):
    runs, _, outcome = pooled
    assert [result.status for result in outcome.results] == ["stopped", "not begun"]
    assert (outcome.results[0].stop_reason, outcome.exit_code) == ("interrupted by SIGINT", 130)
    saved = load_checkpoint(RunPaths(runs / "long-s3"), "last").info["clock"]
    assert saved["env_steps"] == outcome.results[0].env_steps > 0
    assert not (runs / "long-s4").exists()
    assert [member.run_id for member in read_group(runs, "long").members] == ["long-s3", "long-s4"]
    assert [(m.run_id, begun) for m, begun in unfinished(runs, outcome.group)] == [
        ("long-s3", True),
        ("long-s4", False),
    ]
    assert outcome.lines()[-1] == "next: gymlab resume long"


def test_a_finished_group_says_how_to_extend_it(pooled, cli, monkeypatch):
    monkeypatch.setenv("GYMLAB_RUNS", str(pooled[0]))
    assert "gymlab resume g --budget N" in cli("resume", "g").out


@pytest.mark.parametrize("engine", ["jax", "gymnasium"])
def test_the_second_run_of_a_process_traces_and_compiles_nothing(tmp_path, engine, monkeypatch):
    kept, traced = CompileCache(), []

    def make(recipe, seed, **more):
        parts = build(recipe, seed, compile_cache=kept, **more)
        if not traced:
            learn = parts.agent.learn
            parts.agent.learn = lambda *args: traced.append(args) or learn(*args)
            traced.append(())
        return parts

    solo(tmp_path, "first", 0, tiny(f"engine={engine}"), make=make)
    assert len(traced) == 2
    compiled = []
    with monkeypatch.context() as patched:
        patched.setattr(jax._src.compiler, "compile_or_get_cached", lambda *a, **_: compiled.append(a))
        solo(tmp_path, "second", 1, tiny(f"engine={engine}", "learning_rate=1e-2", budget="64"), make=make)
    assert len(traced) == 2
    assert compiled == []
    alone = solo(tmp_path, "alone", 1, tiny(f"engine={engine}", "learning_rate=1e-2", budget="64"))
    assert_same_run(tmp_path / "second", alone)


def test_recipes_share_compiled_code_only_where_numbers_alone_differ():
    base = compile_key(tiny())
    for same in ("learning_rate=lin_1e-2", "gamma=0.9", "stop.eval_return=3", "eval.every=10%", "checkpoints.keep=9"):
        assert compile_key(tiny(same)) == base, same
    for other in ("n_envs=4", "policy.hidden=[9]", "target_kl=0.1", "normalize.obs=true", "metrics.statistics=full"):
        assert compile_key(tiny(other)) != base, other


@pytest.fixture(scope="module")
def vmapped(tmp_path_factory):
    """Two learning rates in one program; one of them is far too high."""
    runs = tmp_path_factory.mktemp("vmapped")
    group, specs = grouped(runs, "v", [1], [("learning_rate=1e-2",), ("learning_rate=1e38",)], "vmap")
    return runs, run_group(runs, group, specs, VmappedExecutor(), GroupOptions(output="json"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The sound one by itself."""
    return solo(tmp_path_factory.mktemp("alone"), "alone", 1, amend(tiny(), ["learning_rate=1e-2"]))


def test_a_vmapped_member_agrees_with_its_solo_run_after_five_updates(vmapped, alone):
    ours, theirs = (load_checkpoint(RunPaths(path), "last") for path in (vmapped[0] / "v-v0-s1", alone))
    assert ours.info["clock"]["updates"] == theirs.info["clock"]["updates"] == 5
    for name, tensor in theirs.policy.items():
        np.testing.assert_allclose(ours.policy[name], tensor, atol=1e-4, err_msg=name)


def test_a_vmapped_member_has_rows_evaluations_and_checkpoints_where_its_solo_run_has_them(vmapped, alone):
    seen = []
    for folder in (vmapped[0] / "v-v0-s1", alone):
        with MetricsReader(RunPaths(folder).metrics) as reader:
            values = reader.read(["updates", "hp/learning_rate", "eval/greedy_mean"])
            names = {name for name in reader.names() if not name.startswith(("time/", "sys/"))}
        evaluated = np.isfinite(values["eval/greedy_mean"]).tolist()
        saved = sorted(path.name for path in (folder / "checkpoints").iterdir() if path.is_dir())
        seen.append((values["updates"].tolist(), values["hp/learning_rate"].tolist(), evaluated, saved, names))
    assert seen[0] == seen[1]


def test_a_vmapped_member_whose_numbers_go_bad_ends_alone(vmapped):
    _, outcome = vmapped
    assert [result.status for result in outcome.results] == ["finished", "failed"]
    assert outcome.exit_code == 1
    assert all("a lower learning_rate (it was 1e+38)" in message for message in outcome.failures.values())
    assert outcome.lines()[-1] == "next: gymlab resume v"


def test_a_vmapped_members_checkpoint_goes_on_by_itself_and_says_that_it_is_not_exact(vmapped):
    runs, _ = vmapped
    paths = RunPaths(runs / "v-v0-s1")
    result = resume(paths, Continuation(budget="96"))
    assert (result.status, result.clock.updates) == ("finished", 6)
    session = json.loads(paths.manifest.read_text())["sessions"][-1]
    assert session["exact"] is False
    assert any("vmapped: 2" in reason for reason in session["reasons"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "at least 1"),
        (["--seeds", "7..3"], "from..to"),
        (["--seeds", "two"], "from..to"),
        (["--vmap", "n_envs=2,4"], "compiled in, and can differ only in learning_rate"),
        (["--vmap", "learning_rat=1e-3,1e-4"], "learning_rate"),
        (["--vmap", "learning_rate=,"], "e.g. ppo.learning_rate="),
        (["--seeds", "2", "--vmap", "--engine", "gymnasium"], "--vmap needs a compiled env"),
        (["--seeds", "2", "--detach"], "--detach starts one run"),
        (["--seeds", "2", "--vmap", "--jobs", "2"], "--jobs"),
    ],
)
def test_a_mistake_is_told_before_anything_is_made(cli, arguments, message):
    done = cli("train", "CartPole-v1:ppo", *TINY, "--budget", 80, *arguments)
    assert done.code == 2
    assert message in done.err
    assert not [path for path in (cli.folder / "runs").glob("*") if path.is_dir()]


def test_seeds_are_a_number_a_range_or_a_list():
    from gymlab.cli.options import parse_seeds
    from gymlab.cli.train_group import parse_variations

    assert parse_seeds("3") == [0, 1, 2]
    assert parse_seeds("2", first=5) == [5, 6]
    assert parse_seeds("4..6") == [4, 5, 6]
    assert parse_seeds("9,1,9,3..4") == [9, 1, 3, 4]
    with pytest.raises(UserError, match="at most"):
        parse_seeds("999999999")
    assert parse_variations(["a=1,2", "", "b=3,4"]) == [
        ("a=1", "b=3"), ("a=1", "b=4"), ("a=2", "b=3"), ("a=2", "b=4")
    ]  # fmt: skip
    assert parse_variations([""]) == []


def _until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _running(runs, run_id):
    status = read_status(RunPaths(runs / run_id))
    return status["status"] == "running" and bool(status.get("clock", {}).get("env_steps"))


@pytest.fixture
def started(tmp_path):
    """A group with one long member more than its two workers, which train."""
    runs = tmp_path / "runs"
    group = start(
        "train", "CartPole-v1:ppo", *TINY, "--budget", LONG, "--seeds", 3, "--jobs", 2, "--group", "g",
        cwd=tmp_path, GYMLAB_RUNS=str(runs),
    )  # fmt: skip
    try:
        _until(lambda: all(_running(runs, f"g-s{i}") for i in range(2)))
        yield group, runs
    finally:
        group.kill()
        group.communicate()


def _status(runs, seed):
    return read_status(RunPaths(runs / f"g-s{seed}"))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_every_member_in_order_and_resume_goes_on_with_all(started, number, code, tmp_path):
    group, runs = started
    group.send_signal(number)
    out, _ = group.communicate(timeout=30)
    assert group.returncode == code, out
    assert "next: gymlab resume g" in out
    for seed in range(2):
        assert (_status(runs, seed)["status"], _status(runs, seed)["stop_reason"]) == (
            "stopped",
            f"interrupted by {number.name}",
        )
    assert not (runs / "g-s2").exists()
    again = start("resume", "g", cwd=tmp_path, GYMLAB_RUNS=str(runs))
    _until(lambda: all(_running(runs, f"g-s{i}") for i in range(2)))
    again.send_signal(number)
    assert again.wait(30) == code
    again.stdout.close()
    assert all(_status(runs, i)["sessions"] == 2 for i in range(2))


@pytest.mark.slow
def test_a_member_whose_process_is_killed_takes_nobody_with_it(started):
    group, runs = started
    os.kill(_status(runs, 0)["pid"], signal.SIGKILL)
    _until(lambda: _running(runs, "g-s2"))
    assert _running(runs, "g-s1")
    assert _status(runs, 0)["status"] == "crashed"
    group.send_signal(signal.SIGTERM)
    out, _ = group.communicate(timeout=30)
    assert group.returncode == 1, out
    assert "its process died" in out


@pytest.mark.slow
def test_a_killed_parent_leaves_no_process_behind_and_a_group_that_goes_on(started, tmp_path):
    group, runs = started
    workers = [_status(runs, i)["pid"] for i in range(2)]
    group.kill()
    group.wait()
    _until(lambda: not any(map(_alive, workers)), 5)
    assert [_status(runs, seed)["status"] for seed in range(2)] == ["stopped", "stopped"]
    budget = max(_status(runs, i)["clock"]["env_steps"] for i in range(2)) + 160
    gymlab("resume", "g", "--budget", budget, cwd=tmp_path, GYMLAB_RUNS=str(runs))
    assert [_status(runs, seed)["status"] for seed in range(3)] == ["finished"] * 3
    for seed in range(2):
        sessions = json.loads((runs / f"g-s{seed}" / "manifest.json").read_text())["sessions"]
        assert sessions[-1]["exact"] is True
