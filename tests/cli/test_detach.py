"""`--detach`: a run in the background, followed, stopped and resumed from outside."""

import json
import os
from dataclasses import asdict

import pytest

from gymlab.runs import files, logs
from gymlab.runs.locks import lock_holder
from gymlab.runs.paths import RunPaths
from tests.cli.stored_runs import TINY
from tests.waiting import wait_until

LASTING = ["CartPole-v1:ppo", *TINY, "--engine", "gymnasium", "--budget", "500M"]


def test_the_life_of_a_run_in_the_background(cli, monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", "canary-in-the-environment")
    note = "canary-in-the-environment"
    done = cli("train", *LASTING, "--run-id", "one", "--note", note, "--detach", "--json")
    assert done.code == 0, done.err
    started = json.loads(done.out)
    paths = RunPaths(cli.folder / "runs/one")
    assert started == {"run_id": "one", "run_dir": str(paths.root), "pid": started["pid"]}
    assert lock_holder(paths.lock).pid == started["pid"]
    assert os.getsid(started["pid"]) == started["pid"], "it must not end with our terminal"
    assert json.loads(cli("runs", "list", "--json").out)[0]["status"] == "running"
    assert cli("wait", "--timeout", "0.1").code == 124
    assert "CartPole-v1:ppo · gymnasium engine" in cli("logs").out

    stopped = cli("stop")
    assert stopped.code == 0, stopped.err
    assert "stopped (interrupted by SIGTERM)" in stopped.out
    assert "next: gymlab resume one" in stopped.out
    assert cli("wait").code == 143
    assert "stopped: interrupted by SIGTERM" in cli("logs", "one", "-n", "1").out
    assert cli("stop", "one").out.startswith("one is not running: stopped")
    assert "no run is running" in cli("stop").out

    again = cli("resume", "--detach")
    assert again.code == 0, again.err
    assert "gymlab logs -f one" in again.out
    owner = lock_holder(paths.lock)
    files.write_json(paths.root / "stop.json", asdict(owner))  # as from another host
    wait_until(lambda: lock_holder(paths.lock) is None)
    assert json.loads(cli("wait", "one", "--json").out)[0]["stop_reason"] == "stopped by request"
    assert not (paths.root / "stop.json").exists()

    console, log = logs.console_log(paths).read_text(), paths.log.read_text()
    assert console.count("CartPole-v1:ppo · gymnasium engine") == log.count("gymlab 0.") == 2
    assert log.count("stopping at") == 2
    assert all(line[:4].isdigit() or line.startswith("    ") for line in log.splitlines())
    command = json.loads(paths.manifest.read_text())["command"]
    assert command[1:3] == ["train", "CartPole-v1:ppo"]
    for path in paths.root.rglob("*"):
        assert not path.is_file() or b"canary" not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["train", "CartPole-v1", "lerning_rate=1"], 2, "did you mean 'learning_rate'?"),
        (["train", "CartPole-v1", "--run-id", "../evil"], 2, "../evil"),
        (["train", "LunarLander-v3", "--engine", "jax"], 2, "use engine: auto"),  # only the process finds out
        (["resume", "nothing"], 2, "nothing"),
    ],
)
def test_what_cannot_start_says_so_in_the_foreground(cli, command, code, message):
    done = cli(*command, "--detach")
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    left = list((cli.folder / "runs").iterdir()) if (cli.folder / "runs").exists() else []
    assert [path.name for path in left if path.name != ".gitignore"] == []
