"""Two hundred signals at random moments of a process's life."""

import random
import signal
import time

import pytest

from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from tests.running import assert_same_run, gymlab, start

pytestmark = pytest.mark.slow
TINY = ["n_envs=4", "n_steps=16", "batch_size=32", "policy.hidden=[8]", "eval.episodes=4", "eval.final_episodes=10"]
TINY += ["metrics.statistics=basic"]
CASES = {
    "compiled": ["CartPole-v1:ppo", *TINY, "--budget", "30k", "eval.every=5%", "--full-budget"],
    "host": ["CartPole-v1:ppo", *TINY, "--budget", "5k", "--engine", "gymnasium", "eval.every=5%", "--full-budget"],
}
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}


def begin(command, folder, rng, longest):
    """Start a command and wait a random while, mostly longer than it takes to start; the first moments are Python's."""
    process = start(*command, cwd=folder)
    time.sleep(rng.uniform(0.1, longest))
    return process


def timed_end(process):
    began = time.monotonic()
    output, _ = process.communicate(timeout=60)
    assert "Traceback" not in output, output
    return time.monotonic() - began, output


@pytest.mark.parametrize("case", CASES)
def test_a_hundred_signals_each_end_the_run_in_time_and_it_goes_on_exactly(case, folder):
    rng, run = random.Random(case), RunPaths(folder / "runs/stopped")
    began = time.monotonic()
    gymlab("train", *CASES[case], "--run-id", "whole", cwd=folder)
    longest = 1.2 * (time.monotonic() - began)
    done = hits = 0
    while hits < 100:
        existed = run.exists
        command = ["resume", "stopped"] if existed else ["train", *CASES[case], "--run-id", "stopped"]
        process = begin(command, folder, rng, longest)
        number = rng.choice(list(CODES))
        if process.poll() is None:
            process.send_signal(number)
        seconds, output = timed_end(process)
        assert seconds < 10, output
        # A process that has not got as far as our handlers, or has left them behind, is ended by the system.
        assert process.returncode in (0, CODES[number], -number), output
        if run.exists and read_status(run)["status"] == "finished":  # the signal came too late: the next run begins
            assert_same_run(folder / "runs/whole", run.root)
            gymlab("runs", "rm", "stopped", cwd=folder)
            done += 1
            continue
        assert process.returncode != 0, output
        hits += 1
        if "before training began" in output or process.returncode < 0:
            assert run.exists == existed
        else:
            assert read_status(run)["status"] == "stopped", output
    if run.exists:
        gymlab("resume", "stopped", cwd=folder)
        assert_same_run(folder / "runs/whole", run.root)


def test_the_second_of_two_signals_ends_the_process_within_a_second(folder):
    rng = random.Random(0)
    for number in range(20):
        name = f"run-{number}"
        lasting = ["train", "CartPole-v1:ppo", *TINY, "--budget", "500M", "--engine", "gymnasium", "--run-id", name]
        slow = ["n_steps=4096", "batch_size=4096", "epochs=200"]  # an update takes longer than we wait
        process = start(*lasting, *slow, cwd=folder)
        run = RunPaths(folder / "runs" / name)
        while not (run.checkpoints / "0").exists():
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 3))
        first, second = rng.choices(list(CODES), k=2)
        process.send_signal(first)
        time.sleep(rng.uniform(0.15, 0.6))
        ended = process.poll() is not None
        if not ended:
            process.send_signal(second)
        seconds, output = timed_end(process)
        assert process.returncode == CODES[first], output
        assert ended or seconds < 1.0, output
        assert read_status(run)["status"] in ("stopped", "crashed")
        assert load_checkpoint(run, "last").notes == []


def test_signals_while_it_starts_end_it_by_their_own_code(folder):
    """Struck while it imports or compiles, one process in ten died of a segmentation fault."""
    rng = random.Random("starting")
    gymlab("train", *CASES["host"], "--run-id", "whole", cwd=folder)  # fills the compilation cache
    for i in range(60):
        process = begin(["train", *CASES["host"], "--run-id", f"r{i}"], folder, rng, 4.0)
        number = rng.choice(list(CODES))
        process.send_signal(number)
        _, output = timed_end(process)
        assert process.returncode in (CODES[number], -number), output
