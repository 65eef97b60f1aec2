"""Somebody sets the clock of the machine by a day, forwards and backwards, while a run is going."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gymlab.runs.locks import RunLocked, lock_holder
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.store import RunStore
from tests.running import assert_same_run, environment, gymlab, start
from tests.waiting import wait_until

DAY = 86_400
SHIM = Path(__file__).with_name("clock_shim.c")
RUN = [
    "CartPole-v1:ppo", "n_envs=4", "n_steps=16", "batch_size=32", "policy.hidden=[8]", "eval.episodes=2",
    "eval.final_episodes=2", "metrics.statistics=basic", "--engine", "gymnasium", "--full-budget", "-q",
]  # fmt: skip


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """A library that shifts the time of day of a process by what a file says."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs Linux and a C compiler")
    library = tmp_path_factory.mktemp("shim") / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SHIM, "-ldl"], check=True)
    return library


class Clock:
    """The time of day as the processes of a test see it."""

    def __init__(self, folder, shim):
        self._file = folder / "offset"
        self.environ = {"LD_PRELOAD": str(shim), "CLOCK_OFFSET_FILE": str(self._file)}
        self.set(0)

    def set(self, offset):
        temp = self._file.with_suffix(".new")
        temp.write_text(str(offset))
        temp.replace(self._file)

    def now(self):
        code = "import datetime, time; print(time.time(), datetime.datetime.now().timestamp())"
        done = subprocess.run(
            [sys.executable, "-S", "-c", code], env=environment(**self.environ), capture_output=True, check=True
        )
        return [float(text) for text in done.stdout.split()]


def updates_of(paths):
    if not list(paths.checkpoints.glob("[0-9]*")):
        return 0
    with MetricsReader(paths.metrics) as reader:
        return reader.last().get("updates", 0)


def test_the_shim_moves_the_time_of_day(tmp_path, shim):
    clock = Clock(tmp_path, shim)
    for offset in (0, DAY, -DAY):
        clock.set(offset)
        assert all(abs(told - time.time() - offset) < 60 for told in clock.now())


def train_while_the_clock_is_set(folder, clock, budget, settings):
    """A run during which the clock is set at some updates; its folder, and how long it truly took."""
    paths, began = RunPaths(folder / "runs/moved"), time.monotonic()
    process = start("train", *RUN, "--budget", budget, "--run-id", "moved", cwd=folder, **clock.environ)
    try:
        for updates, offset in settings.items():
            wait_until(lambda updates=updates: updates_of(paths) >= updates, process=process)
            clock.set(offset)
            # A day later or earlier, its lock is still its own.
            assert lock_holder(paths.lock).pid == process.pid
            with pytest.raises(RunLocked, match=f"pid {process.pid} on"):
                RunStore.open(paths)
        # And for one who comes with another idea of the time.
        (listed,) = json.loads(gymlab("runs", "list", "--json", cwd=folder, **clock.environ).stdout)
        assert process.poll() is not None or listed["status"] == "running"
        assert process.wait(120) == 0, process.stdout.read()
    finally:
        process.kill()
        process.communicate()
    return paths, time.monotonic() - began


def check_times(paths, took):
    with MetricsReader(paths.metrics) as reader:
        rows = reader.read(["updates", "seconds", "time/collect", "time/update"], clock="updates")
    assert rows["updates"].tolist() == list(range(1, len(rows["updates"]) + 1))
    assert (np.diff(rows["seconds"]) > 0).all()
    assert 0 < rows["seconds"][-1] < took
    for name in ("time/collect", "time/update"):
        assert ((rows[name] >= 0) & (rows[name] < took)).all()
    (listed,) = Registry(paths.root.parent).runs()
    assert (listed["status"], listed["stop_reason"]) == ("finished", "budget")
    assert 0 < listed["seconds"] < took


@pytest.mark.slow
def test_a_clock_that_is_set_changes_neither_order_nor_durations_nor_locks(folder, shim):
    check_times(*train_while_the_clock_is_set(folder, Clock(folder, shim), "8k", {10: DAY, 40: -DAY}))


@pytest.mark.slow
def test_a_run_during_which_the_clock_is_set_is_the_run_that_was_left_alone(folder, shim):
    settings = {50: DAY, 100: -DAY, 200: DAY // 2, 400: 3 * DAY, 600: -3 * DAY}
    paths, took = train_while_the_clock_is_set(folder, Clock(folder, shim), "60k", settings)
    check_times(paths, took)
    gymlab("train", *RUN, "--budget", "60k", "--run-id", "still", cwd=folder)
    assert_same_run(folder / "runs/still", paths.root)
