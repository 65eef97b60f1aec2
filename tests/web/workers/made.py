"""Runs of one update with tiny networks: enough to be looked at. Made once for all tests that look."""

import fcntl
import os

import pytest

from gymlab.recipes.resolve import resolve
from gymlab.runs.paths import RunPaths
from gymlab.session.session import Options
from gymlab.session.start import train

TINY = ("policy.hidden=[8]", "metrics.statistics=basic", "eval.episodes=1", "eval.final_episodes=1")
SMALL = (*TINY, "n_envs=4", "n_steps=16", "batch_size=32", "epochs=1")
WRAPPED = "env.wrappers=[{frame_stack: 3}, {time_penalty: 0.05}]"
RUNS = {
    # Everything at once that stands between an env and its policy: a stack, a shaped reward, normalised observations.
    "cart": (
        "CartPole-v1:ppo",
        (*SMALL, "env.wrappers=[{frame_stack: 3}, {time_penalty: 0.05}]", "normalize.obs=true"),
    ),
    "lake": ("FrozenLake-v1:ppo", SMALL),
    "bandit": ("Bandit-v0:ppo", SMALL),
    "custom": ("tests.example_envs:Custom-v0", SMALL),
}
LARGE = {
    "lander": ("LunarLander-v3:ppo", SMALL),
    "masked": ("tests.example_envs:Masked-v0", SMALL),
    "objects": ("ALE/Pong-v5:objects", (*SMALL, "n_envs=2")),
    "rgb": ("ALE/Pong-v5:rgb", (*TINY[1:], "n_envs=2", "n_steps=16", "batch_size=16", "epochs=1")),
}


def make(root, runs):
    for name, (recipe, settings) in runs.items():
        if not (root / name).exists():
            train(resolve(recipe, settings, budget="64").recipe, Options(run_id=name), root)
    return root


def _made(tmp_path_factory, folder, runs):
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / folder
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:  # two workers share them
        fcntl.flock(lock, fcntl.LOCK_EX)
        return make(folder / "runs", runs)


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory):
    return _made(tmp_path_factory, "inspected", RUNS)


@pytest.fixture(scope="session")
def large_runs(tmp_path_factory):
    return _made(tmp_path_factory, "inspected-large", LARGE)


def run_of(root, name):
    return RunPaths(root / name)
