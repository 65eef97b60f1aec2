"""Killed at any instruction, a save leaves the old checkpoint or the new one, whole; a commit all its rows or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gymlab.runs import checkpoints
from gymlab.runs.checkpoints import Loaded, load_checkpoint
from gymlab.runs.failpoints import METRIC_FAILPOINTS, SAVE_FAILPOINTS
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.paths import RunPaths
from gymlab.runs.store import RunStore

# Runs in a process of its own, without JAX, so that it may fork: one child per kill, without paying for imports.
WRITER = """
import os, random, signal, sys, time
from pathlib import Path
import numpy as np
from gymlab.runs.checkpoints import save_checkpoint
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.paths import RunPaths

def save(paths, step, *kinds, keep=2, version=0):
    size = 50_000 if version == 9 else 100
    policy = {"w": np.full(size, step + version, np.float32), "n": np.array(step)}
    save_checkpoint(paths, step=step, policy=policy, state={"m": policy["w"] * 2}, info={"version": version},
                    kinds={"last", *kinds}, keep=keep)

def row(update):
    clocks = dict.fromkeys(("updates", "vec_steps", "env_steps"), update)
    clocks |= {"episodes": 0, "gradient_steps": 0, "seconds": 0.0}
    return {**clocks, "a": 1.0 / update}

def prepare(folder):
    paths = RunPaths(Path(folder))
    paths.root.mkdir()
    paths.manifest.write_text("{}")
    for step, kinds in ((100, {"periodic", "best"}), (200, {"periodic"}), (300, {"periodic"})):
        save(paths, step, *kinds)
    with MetricsWriter(paths.metrics) as writer:
        writer.append([row(1), row(2)])
    return paths

def child(work):
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    return pid

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def killed_at(place, work):
    def armed():
        os.environ["GYMLAB_FAILPOINT"] = place
        work()
    return ended(child(armed))
"""

SAVES = """
folder, places = sys.argv[1], sys.argv[2].split(",")
codes = {}
for place in places:
    for step in (300, 400):  # replacing the newest, or adding one
        paths = prepare(f"{folder}/{place}-{step}")
        codes[f"{place}-{step}"] = killed_at(place, lambda: save(paths, step, "periodic", "best", version=1))
print(codes)
"""

COMMITS = """
folder, places = sys.argv[1], sys.argv[2].split(",")
codes = {}
def commit(paths):
    writer = MetricsWriter(paths.metrics)
    writer.append([row(3), {**row(4), "new": 1.0}])
    writer.amend(2, {"a": -1.0, "late": 2.0})
    writer.commit()
for place in places:
    paths = prepare(f"{folder}/{place}")
    codes[place] = killed_at(place, lambda: commit(paths))
print(codes)
"""

RANDOM = """
folder, rounds = sys.argv[1], int(sys.argv[2])
random.seed(0)
def endless(paths):
    step = 300
    while True:
        step += 100
        save(paths, step, "periodic", "best", version=9)
        save(paths, step, "periodic", version=9)
paths = prepare(f"{folder}/run")
for _ in range(rounds):
    pid = child(lambda: endless(paths))
    time.sleep(random.uniform(0.005, 0.06))
    os.kill(pid, signal.SIGKILL)
    assert ended(pid) == -signal.SIGKILL
    print(os.getpid(), flush=True)
    sys.stdin.readline()  # the test looks at what is left
"""


def run_writer(code: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", WRITER + code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.replace("'", '"'))


def assert_whole(loaded: Loaded) -> None:
    version = loaded.info["version"]
    step = loaded.step
    assert loaded.notes == []
    assert (loaded.policy["w"] == step + version).all()
    assert (loaded.state["m"] == 2 * (step + version)).all()
    assert int(loaded.policy["n"]) == step


@pytest.fixture(scope="module")
def killed_saves(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, int]]:
    folder = tmp_path_factory.mktemp("saves")
    return folder, run_writer(SAVES, str(folder), ",".join(SAVE_FAILPOINTS))


@pytest.mark.parametrize("step", [300, 400])
@pytest.mark.parametrize("place", SAVE_FAILPOINTS)
def test_a_save_killed_anywhere_leaves_the_old_or_the_new(
    killed_saves: tuple[Path, dict[str, int]], place: str, step: int
) -> None:
    folder, codes = killed_saves
    died = codes[f"{place}-{step}"] == 137
    never_passed = place == "between_renames" and step == 400
    assert died != never_passed
    paths = RunPaths(folder / f"{place}-{step}")

    seen = load_checkpoint(paths)  # as anybody who only reads
    assert_whole(seen)
    assert (seen.step, seen.info["version"]) in {(300, 0), (step, 1)}
    assert_whole(load_checkpoint(paths, "best"))

    with RunStore.open(paths):  # as the process that goes on
        after = load_checkpoint(paths)
        assert (after.step, after.info) == (seen.step, seen.info)
        assert after.path == paths.checkpoints / str(after.step)
        index = json.loads(paths.checkpoint_index.read_text())
        assert index["last"] == str(after.step)
        assert index["best"] == (str(step) if after.info["version"] else "100")
        assert not [name for name in os.listdir(paths.checkpoints) if name.startswith(".")]
        again = checkpoints.save_checkpoint(
            paths, step=500, policy=after.policy, state=after.state, info={}, kinds={"last"}, keep=2
        )
        assert load_checkpoint(paths).path == again


def test_there_are_enough_places_to_die() -> None:
    assert len(set(SAVE_FAILPOINTS)) >= 12
    assert len(set(SAVE_FAILPOINTS) | set(METRIC_FAILPOINTS)) >= 20


def test_a_commit_killed_anywhere_keeps_all_rows_or_none(tmp_path: Path) -> None:
    codes = run_writer(COMMITS, str(tmp_path), ",".join(METRIC_FAILPOINTS))
    assert set(codes.values()) == {137}
    for place in METRIC_FAILPOINTS:
        path = tmp_path / place / "metrics.db"
        with MetricsReader(path) as reader:
            updates = reader.read([], clock="updates")["updates"].tolist()
            row = reader.row(2)
        assert updates == ([1, 2, 3, 4] if place == "after_commit" else [1, 2])
        assert (row["a"], row.get("late")) == ((-1.0, 2.0) if place == "after_commit" else (0.5, None))
        with MetricsWriter(path) as writer:  # and it goes on
            writer.cut_after(2)
            clocks = {"updates": 3, "vec_steps": 3, "env_steps": 3, "episodes": 0, "gradient_steps": 0, "seconds": 0.0}
            writer.append([{**clocks, "a": 7.0}])
        with MetricsReader(path) as reader:
            np.testing.assert_array_equal(reader.read(["a"])["a"][2:], [7.0])


def test_sigkill_at_random_moments_never_costs_a_checkpoint(tmp_path: Path) -> None:
    rounds = 25
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER + RANDOM, str(tmp_path), str(rounds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    paths = RunPaths(tmp_path / "run")
    with process:
        try:
            for _ in range(rounds):
                assert process.stdout.readline()
                assert_whole(load_checkpoint(paths))
                assert_whole(load_checkpoint(paths, "best"))
                RunStore.open(paths).close()
                assert not [name for name in os.listdir(paths.checkpoints) if name.startswith(".")]
                process.stdin.write("\n")
                process.stdin.flush()
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0
