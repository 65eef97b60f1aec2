"""Many processes on one registry and one run, some of them killed: nothing is lost, torn or held by the dead."""

import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time

import pytest

from gymlab.runs import files
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import Registry
from gymlab.runs.store import RunStore
from tests.running import environment, gymlab

# Children of one process that has imported everything: that 64 of them start is not what is measured.
WRITERS = """
import os, sys, time
from pathlib import Path
from gymlab.runs.registry import Registry
root, writers, each = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])

def write(writer, out):
    registry = Registry(root)
    for n in range(each):
        registry.register({"id": f"run-{writer:02}-{n:03}", "name": "CartPole-v1:ppo", "env": "CartPole-v1", "seed": n,
                           "status": "finished", "created": f"2026-11-15T00:00:{n:02}Z", "score": 500.0 * n})
        os.write(out, f"run-{writer:02}-{n:03} {time.monotonic()}\\n".encode())  # it has been promised

for writer in range(writers):
    if (pid := os.fork()) == 0:
        write(writer, 1)
        os._exit(0)
    os.write(2, f"{pid}\\n".encode())
os.close(1)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""

RACE = """
import os, sys, time
from gymlab.runs.locks import RunLocked
from gymlab.runs.store import RunStore
run, starters, begin = sys.argv[1], int(sys.argv[2]), time.monotonic() + 0.3
for _ in range(starters):
    if os.fork() == 0:
        time.sleep(max(0.0, begin - time.monotonic()))
        try:
            store = RunStore.open(run)
        except RunLocked as error:
            os.write(1, f"refused {time.monotonic() - begin:.3f} {error}\\n".encode())
            os._exit(0)
        store.start()
        os.write(1, f"won {os.getpid()}\\n".encode())
        time.sleep(60)
"""


@contextlib.contextmanager
def polling(root, readers):
    """Readers that poll the registry meanwhile; the numbers of entries they saw. A torn file is an error."""
    over, reads, torn = threading.Event(), [], []

    def read():
        while not over.wait(0.005):
            try:
                reads.append(len(json.loads((root / "registry.json").read_text())))
            except FileNotFoundError:
                pass
            except ValueError as error:
                torn.append(error)

    threads = [threading.Thread(target=read) for _ in range(readers)]
    for thread in threads:
        thread.start()
    try:
        yield reads
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert torn == []


def write_with_kills(root, writers, each, kills, readers=2):
    """Writers of which some are killed, and readers that poll; what was promised, how many a second, reads made."""
    command = [sys.executable, "-c", WRITERS, str(root), str(writers), str(each)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with polling(root, readers) as reads, subprocess.Popen(command, env=environment(), **pipes) as process:
        rng, pids = random.Random(0), [int(process.stderr.readline()) for _ in range(writers)]
        for pid in rng.sample(pids, kills):
            time.sleep(rng.uniform(0.0, 0.05))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        told, _ = process.communicate(timeout=300)
    promised = dict(line.split() for line in told.splitlines())
    times = sorted(map(float, promised.values()))
    return set(promised), (len(times) - 1) / (times[-1] - times[0]), reads


def check_registry(root, promised, each, kills):
    entries = Registry(root).entries()
    ids = [entry["id"] for entry in entries]
    assert len(ids) == len(set(ids))
    assert promised <= set(ids)
    assert len(set(ids) - promised) <= kills  # written, and killed before saying so
    for writer in {run_id[:6] for run_id in ids}:
        order = [int(run_id[7:]) for run_id in ids if run_id.startswith(writer)]
        assert order == sorted(order, reverse=True)  # newest first
        assert order == list(range(len(order)))[::-1] or len(order) <= each
    assert Registry(root).notes == []


def test_writers_that_are_killed_lose_nothing_and_tear_nothing(tmp_path):
    promised, _, reads = write_with_kills(tmp_path, writers=16, each=10, kills=4, readers=1)
    assert len(promised) >= 120
    assert reads == sorted(reads)
    check_registry(tmp_path, promised, each=10, kills=4)


@pytest.mark.slow
def test_a_thousand_entries_from_64_writers_with_kills(tmp_path):
    promised, rate, reads = write_with_kills(tmp_path, writers=72, each=16, kills=8, readers=4)
    print(f"\n{len(promised)} entries, {rate:.0f} writes/s, {len(reads)} reads")
    assert len(promised) >= 1000
    assert rate > 100 / 3
    check_registry(tmp_path, promised, each=16, kills=8)


def make_run(root, name="x"):
    store = RunStore.create(root, name, name="n")
    store.write_manifest({"recipe": "n"})
    store.close()
    return store.paths


def test_of_fifty_starters_one_wins_the_others_name_it_at_once_and_its_death_frees_the_run(tmp_path):
    paths = make_run(tmp_path)
    command = [sys.executable, "-c", RACE, str(paths.root), "50"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        lines = [process.stdout.readline() for _ in range(50)]
    (winner,) = [int(line.split()[1]) for line in lines if line.startswith("won")]
    try:
        refusals = [re.fullmatch(r"refused (\S+) .*in use by pid (\d+) on (\S+): .*\n", line) for line in lines]
        found = [match for match in refusals if match]
        assert [(int(match[2]), match[3]) for match in found] == [(winner, os.uname().nodename)] * 49
        assert max(float(match[1]) for match in found) < 3 * 1.0
    finally:
        os.kill(winner, signal.SIGKILL)
    RunStore.open(paths).close()  # at once: it waits for 0.2 s at most


def many_runs(root, count):
    """A folder of so many runs, as `reindex` would list them."""
    status = {"status": "finished", "stop_reason": "budget", "clock": {"env_steps": 1}, "summary": {"score": 1}}
    entries = []
    for number in range(count):
        paths = RunPaths(root / f"cartpole-v1-ppo-20261115-{number:06}-ab12")
        paths.root.mkdir(parents=True)
        paths.manifest.write_text(json.dumps({"recipe": "CartPole-v1:ppo", "env": {"id": "CartPole-v1"}, "seed": 0}))
        paths.status.write_text(json.dumps(status))
        entries.append({"id": paths.run_id, "name": "CartPole-v1:ppo", "env": "CartPole-v1", "algorithm": "ppo",
                        "seed": number, "created": f"2026-11-15T00:00:00.{number:06}Z", "status": "finished",
                        "env_steps": 100_000, "score": 500.0, "solved": True, "tags": []})  # fmt: skip
    files.write_text(root / "registry.json", "[" + ",\n".join(json.dumps(entry) for entry in reversed(entries)) + "]\n")


def listing_seconds(folder, *arguments):
    took = []
    for _ in range(3):
        began = time.monotonic()
        done = gymlab("runs", "list", *arguments, cwd=folder)
        took.append(time.monotonic() - began)
    return statistics.median(took), done.stdout


@pytest.mark.slow
def test_ten_thousand_runs_are_listed_within_a_second(folder):
    many_runs(folder / "runs", 10_000)
    seconds, told = listing_seconds(folder, "--json")
    assert len(json.loads(told)) == 10_000
    table_seconds, table = listing_seconds(folder)
    assert table.count("finished") >= 10_000
    last_seconds, _ = listing_seconds(folder, "--last", "20")
    print(f"\n--json {seconds:.2f} s, table {table_seconds:.2f} s, --last 20 {last_seconds:.2f} s")
    assert max(seconds, table_seconds, last_seconds) < 3 * 1.0


def test_a_thousand_runs_are_listed_quickly_and_truthfully(cli):
    many_runs(cli.folder / "runs", 1000)
    make_run(cli.folder / "runs", "unregistered")
    began = time.process_time()
    listed = json.loads(cli("runs", "list", "--json").out)
    assert time.process_time() - began < 3
    assert len(listed) == 1001
    assert "unregistered" in [entry["id"] for entry in listed]
