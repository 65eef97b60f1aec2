"""One solved CartPole run with films, made once for all tests of films and pages."""

import fcntl
import os
from pathlib import Path

import pytest

from gymlab.runs.paths import RunPaths
from tests.running import gymlab


@pytest.fixture(scope="session")
def solved_run(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "filmed"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:  # two workers share it
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = RunPaths(folder / "runs" / "solved")
        if not run.status.exists():
            gymlab("train", "CartPole-v1:ppo", "--run-id", "solved", "-q", cwd=folder, GYMLAB_VIDEO="on",
                   GYMLAB_RUNS=str(folder / "runs"))  # fmt: skip
    return RunPaths(Path(run.root))
