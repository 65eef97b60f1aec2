"""Two million steps on each collector: memory, open files and threads stay what they were after warming up."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from gymlab.runs.paths import RunPaths
from tests.running import gymlab, last_json, start

STEPS = 2_000_000
CASES = {
    "compiled": ["--engine", "jax", "n_envs=64", "n_steps=32", "batch_size=128", "epochs=4"],
    "host": ["--engine", "gymnasium", "n_envs=64", "n_steps=32", "batch_size=1024", "epochs=1"],
    "processes": ["--engine", "gymnasium", "n_envs=64", "n_steps=32", "batch_size=1024", "epochs=1",
                  "vectorization=processes", "workers=2"],
}  # fmt: skip
REST = ["policy.hidden=[16]", "eval.episodes=4", "eval.final_episodes=4", "eval.every=2%", "checkpoints.every=2%"]


def sample(pid, paths):
    """Env steps so far, resident megabytes, open files and threads of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    steps = max((int(folder.name) for folder in paths.checkpoints.glob("[0-9]*")), default=0)
    return steps, int(status["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])


def watch(process, paths):
    """Samples every quarter of a second until the run ends; files and threads at rest, the least of a few looks."""
    samples = []
    while process.poll() is None:
        try:
            looks = [sample(process.pid, paths) for _ in range(3)]
        except (FileNotFoundError, ProcessLookupError, KeyError):
            break
        samples.append(np.min(looks, axis=0))
        time.sleep(0.25)
    return np.array(samples)


def slope_per_100k(samples):
    """Growth of resident megabytes per 100k steps, by least squares."""
    return float(np.polyfit(samples[:, 0] / 1e5, samples[:, 1], 1)[0])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_million_steps_leak_nothing(case, folder):
    paths = RunPaths(folder / "runs/soak")
    command = ["train", "CartPole-v1:ppo", *CASES[case], *REST, "--budget", STEPS, "--full-budget", "-q"]
    process = start(*command, "--run-id", "soak", cwd=folder)
    samples = watch(process, paths)
    told, _ = process.communicate()
    assert process.returncode == 0, told
    assert last_json(gymlab("runs", "list", "--json", "--last", "1", cwd=folder))
    warm = samples[(samples[:, 0] > STEPS / 4) & (samples[:, 0] < STEPS)]  # then it closes what it has open
    slope = slope_per_100k(warm)
    files, threads = warm[:, 2], warm[:, 3]
    print(
        f"\n{case}: {len(warm)} samples, {slope:+.3f} MB per 100k steps, "
        f"{warm[0, 1]:.0f} -> {warm[-1, 1]:.0f} MB, files {files.min():.0f}-{files.max():.0f}, "
        f"threads {threads.min():.0f}-{threads.max():.0f}"
    )
    assert len(warm) > 10
    assert slope < 1.0
    # A checkpoint that is just being written has its file open: what counts is that they are closed again.
    assert np.median(files[len(files) // 2 :]) <= np.median(files[: len(files) // 2])
    assert np.median(threads[len(threads) // 2 :]) <= np.median(threads[: len(threads) // 2])
    assert files.max() - np.median(files) <= 8
