"""Many processes on one runs folder: nothing is lost, one writer per run, readers are never in the way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.locks import RunLocked, lock_holder
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.status import read_status
from gymlab.runs.store import RunStore

REGISTER = """
import sys
from pathlib import Path
from gymlab.runs.registry import Registry
registry, worker = Registry(Path(sys.argv[1])), sys.argv[2]
for n in range(20):
    registry.register({"id": f"run-{worker}-{n:02}", "worker": worker, "n": n})
"""

HOLD = """
import sys, time
from gymlab.runs.store import RunStore
store = RunStore.open(sys.argv[1])
store.start()
print("held", flush=True)
time.sleep(60)
"""

CREATE = """
import sys
from gymlab.core.errors import UserError
from gymlab.runs.store import RunStore
try:
    RunStore.create(sys.argv[1], sys.argv[2] or None, name="CartPole-v1:ppo")
    print("made")
except UserError:
    print("refused")
"""

WRITE = """
import sys
from pathlib import Path
import numpy as np
from gymlab.runs.checkpoints import save_checkpoint
from gymlab.runs.metrics_writer import MetricsWriter
from gymlab.runs.paths import RunPaths
paths = RunPaths(Path(sys.argv[1]))
writer = MetricsWriter(paths.metrics)
update = 0
while True:
    for _ in range(5):
        update += 1
        row = dict.fromkeys(("updates", "vec_steps", "env_steps"), update)
        row |= {"episodes": 0, "gradient_steps": 0, "seconds": 0.0}
        writer.append([{**row, "a": float(update), f"m{update // 50 % 20}": 1.0}])
    writer.commit()
    if update == 5:
        print("ready", flush=True)
    arrays = {"w": np.full(2000, update)}
    for _ in range(2):
        save_checkpoint(paths, step=update, policy=arrays, state=arrays, info={"at": update},
                        kinds={"periodic", "best"}, keep=1)
"""


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)


@contextlib.contextmanager
def background(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has said its first word, and is killed at the end whatever happens."""
    with start(code, *arguments) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def output(process: subprocess.Popen[str]) -> str:
    told, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return told.strip()


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    store = RunStore.create(tmp_path, "x", name="n")
    store.write_manifest({"recipe": "n"})
    store.close()
    return store.paths


@pytest.fixture
def holder(paths: RunPaths) -> Iterator[subprocess.Popen[str]]:
    with background(HOLD, str(paths.root)) as process:
        yield process


def test_ten_writers_lose_no_entry_and_readers_see_no_torn_file(tmp_path: Path) -> None:
    workers = [start(REGISTER, str(tmp_path), str(worker)) for worker in range(10)]
    while any(worker.poll() is None for worker in workers):
        if (tmp_path / "registry.json").exists():
            json.loads((tmp_path / "registry.json").read_text())
        time.sleep(0.002)
    for worker in workers:
        output(worker)
    entries = json.loads((tmp_path / "registry.json").read_text())
    assert len(entries) == len({entry["id"] for entry in entries}) == 200
    for worker_name in map(str, range(10)):
        order = [entry["n"] for entry in entries if entry["worker"] == worker_name]
        assert order == list(range(19, -1, -1))  # newest first
    assert Registry(tmp_path).notes == []
    assert sorted(os.listdir(tmp_path)) == [".gitignore", ".registry.lock", "registry.json"]


def test_a_second_process_is_refused_by_name_and_a_killed_one_leaves_the_run_free(
    paths: RunPaths, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(RunLocked, match=rf"in use by pid {holder.pid} on \S+"):
        RunStore.open(paths)
    owner = lock_holder(paths.lock)
    assert owner is not None
    assert owner.pid == holder.pid
    assert read_status(paths)["status"] == "running"
    assert Registry(paths.root.parent).runs()[0]["status"] == "running"

    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert lock_holder(paths.lock) is None
    status = read_status(paths)
    assert status["status"] == "crashed"
    assert f"pid {holder.pid}" in status["stop_reason"]
    assert Registry(paths.root.parent).runs()[0]["status"] == "crashed"
    with RunStore.open(paths) as store:
        store.start()
        assert read_status(paths)["status"] == "running"


def test_a_stopped_process_still_holds_its_run(paths: RunPaths, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGSTOP)
    with pytest.raises(RunLocked):
        RunStore.open(paths)
    assert read_status(paths)["status"] == "running"


def test_looking_at_a_run_does_not_keep_its_owner_out(paths: RunPaths) -> None:
    look = f"""
import os
from pathlib import Path
from gymlab.runs.locks import lock_holder
print("looking", flush=True)
while os.getppid() == {os.getpid()}:
    lock_holder(Path({str(paths.lock)!r}))
"""
    with background(look):
        for _ in range(50):
            RunStore.open(paths).close()


def test_a_forked_child_does_not_keep_the_run_locked(paths: RunPaths) -> None:
    code = f"""
import os, sys, time
from gymlab.runs.store import RunStore
store = RunStore.open({str(paths.root)!r})
if os.fork() == 0:
    os.close(1)
    time.sleep(5)
    os._exit(0)
print("forked", flush=True)
os._exit(0)
"""
    output(start(code))
    RunStore.open(paths).close()


def test_one_id_is_made_once_and_automatic_ids_never_meet(tmp_path: Path) -> None:
    same = [start(CREATE, str(tmp_path / "same"), "x") for _ in range(6)]
    free = [start(CREATE, str(tmp_path / "free"), "") for _ in range(6)]
    assert sorted(map(output, same)) == ["made"] + ["refused"] * 5
    assert list(map(output, free)) == ["made"] * 6
    assert len([name for name in os.listdir(tmp_path / "free") if not name.startswith(".")]) == 6


def test_readers_work_while_the_run_is_written(paths: RunPaths) -> None:
    with background(WRITE, str(paths.root)):
        deadline, seen = time.monotonic() + 60, [0.0]
        while len(set(seen)) < 20 and time.monotonic() < deadline:
            with MetricsReader(paths.metrics) as reader:
                read = reader.read()
                updates = reader.read(["a"], clock="updates")
            np.testing.assert_array_equal(updates["a"], np.arange(1, len(updates["a"]) + 1))
            assert len(updates["a"]) % 5 == 0  # whole commits
            assert len(read["a"]) <= len(updates["a"])
            seen.append(len(updates["a"]))
            if len(updates["a"]) > 5:
                for which in ("last", "best"):
                    loaded = load_checkpoint(paths, which)
                    assert loaded.notes == []
                    assert (loaded.policy["w"] == loaded.info["at"]).all()
    assert len(set(seen)) >= 20
    assert seen == sorted(seen)
