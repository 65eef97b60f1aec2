"""A run that is killed and continued is, byte for byte, the run that was left alone."""

import random
import signal
import time

import pytest

from tests.running import assert_same_run, gymlab, last_json, start
from tests.waiting import wait_until

SMALL = ["policy.hidden=[16,16]", "eval.episodes=2", "eval.final_episodes=3", "eval.every=25%", "--full-budget"]
CASES = {
    "cartpole compiled": [
        "CartPole-v1:ppo", "--budget", "150k", "n_envs=8", "n_steps=32", "normalize.obs=true", "normalize.reward=true",
        "learning_rate=lin_1e-3", "epochs=4", *SMALL,
    ],
    "cartpole host": [
        "CartPole-v1:ppo", "--budget", "60k", "--engine", "gymnasium", "normalize.obs=true", "clip_range=lin_0.2",
        "epochs=4", "metrics.statistics=basic", *SMALL,
    ],
    "lunar lander host": [
        "LunarLander-v3:ppo", "--budget", "24k", "n_envs=4", "n_steps=128", "batch_size=128", "learning_rate=lin_1e-3",
        "normalize.obs=true", "normalize.reward=true", *SMALL,
    ],
    "frozen lake reinforce": ["FrozenLake-v1:reinforce", "--budget", "200k", "n_envs=8", "n_steps=20", *SMALL],
}  # fmt: skip


def checkpoints(run):
    return [path for path in (run / "checkpoints").glob("[0-9]*") if path.name != "0"]


def kill_in_the_middle(arguments, folder, rng):
    """Start a run and SIGKILL it at a random moment after its first checkpoint; whether it was still running."""
    process = start(*arguments, cwd=folder)
    run = folder / "runs" / "killed"
    wait_until(lambda: checkpoints(run) or process.poll() is not None, "a checkpoint")
    time.sleep(rng.uniform(0, 0.6))
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return alive


# Each case compiles programs of its own; the long suite kills runs of all of them many times.
SHORT = "cartpole compiled"


@pytest.fixture(
    scope="module", params=[SHORT, *(pytest.param(case, marks=pytest.mark.slow) for case in CASES if case != SHORT)]
)
def left_alone(request, tmp_path_factory):
    """A case and the run of it that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    done = gymlab("train", *CASES[request.param], "--run-id", "whole", "--json", cwd=folder)
    assert last_json(done)["status"] == "finished"
    return request.param, folder / "runs/whole"


def test_kill_minus_nine_and_resume_is_exact(left_alone, folder):
    case, whole = left_alone
    rng = random.Random(case)
    assert kill_in_the_middle(["train", *CASES[case], "--run-id", "killed"], folder, rng), "the run was over too soon"
    done = gymlab("resume", "killed", cwd=folder)
    assert "resumed (exact)" in done.stdout
    assert_same_run(whole, folder / "runs/killed")


def test_sigterm_checkpoints_and_exits_143_and_goes_on_exactly(left_alone, folder):
    case, whole = left_alone
    process = start("train", *CASES[case], "--run-id", "stopped", cwd=folder)
    wait_until(lambda: checkpoints(folder / "runs/stopped"), "a checkpoint", process=process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 143, output
    assert "stopped: interrupted by SIGTERM" in output
    gymlab("resume", "stopped", cwd=folder)
    assert_same_run(whole, folder / "runs/stopped")


def test_the_same_seed_twice_is_the_same_run_and_another_seed_is_not(folder):
    arguments = ["train", *CASES[SHORT], "--budget", "5k"]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        gymlab(*arguments, "--seed", seed, "--run-id", name, cwd=folder)
    assert_same_run(folder / "runs/a", folder / "runs/b")
    with pytest.raises(AssertionError):
        assert_same_run(folder / "runs/a", folder / "runs/c")
