"""Runs in the background: started, watched, stopped and gone on with from outside."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from gymlab.features import logfile
from gymlab.runs import files, logs, platform
from gymlab.runs.locks import Owner, lock_holder
from gymlab.runs.paths import RunPaths
from gymlab.runs.requests import request_stop, send_signal, stop_requested
from gymlab.runs.selection import newest_run
from gymlab.runs.store import RunStore
from tests.waiting import wait_until

TINY = [
    "n_envs=4", "n_steps=16", "batch_size=32", "policy.hidden=[8]", "eval.episodes=2", "eval.final_episodes=2",
    "metrics.statistics=basic", "--full-budget",
]  # fmt: skip
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


def test_logs_follow_a_run_to_its_end_across_rotation(folder, monkeypatch):
    monkeypatch.setattr(logs, "MAX_BYTES", 3000)
    paths = make_run(folder / "runs", "one", "finished")
    handler = logfile._Handler(paths.log, 20)

    def write(number):
        handler.handle(logfile.logging.LogRecord("run", 20, "", 0, f"line {number} \x1b[1m\x07±", None, None))

    for number in range(20):
        write(number)
    waiting = iter(range(20, 200))

    def ended():
        for _ in range(10):
            if (number := next(waiting, None)) is None:
                return True
            write(number)
        return False

    shown = list(logs.follow(paths, 5, ended))
    handler.close()
    assert [line.split("INFO    ")[1] for line in shown] == [f"line {number} ?±" for number in range(15, 200)]
    assert paths.log.stat().st_size < 4000
    assert logs.older_part(paths.log).stat().st_size < 4000
    assert [line.split()[3] for line in logs.tail(paths, 3)] == ["197", "198", "199"]


def make_run(root, name, status, clock=None):
    with RunStore.create(root, name, name="CartPole-v1:ppo") as store:
        store.write_manifest({"recipe": "CartPole-v1:ppo", "seed": 0})
        store.start()
        if status != "crashed":
            store.end(status, "a test")
        else:
            store._started = False  # as if it had been killed here
    return store.paths


def test_wait_tells_how_runs_ended(cli):
    codes = {"finished": 0, "failed": 1, "crashed": 1, "stopped": 143}
    for status, code in codes.items():
        make_run(cli.folder / "runs", status, status)
        assert cli("wait", status).code == code
    assert cli("wait", "finished", "stopped").code == 143
    assert cli("wait", "finished", "stopped", "crashed", "--json").code == 1
    assert cli("wait").code == 143  # the newest
    assert "has written no log" in cli("logs", "finished").err


def test_without_runs_every_command_says_what_to_do(cli):
    assert cli("stop").code == 0
    for command in ("wait", "logs"):
        done = cli(command)
        assert done.code == 2
        assert "gymlab train" in done.err
    done = cli("resume")
    assert done.code == 0
    assert "gymlab train" in done.out


def test_a_bare_resume_takes_the_newest_interrupted_run(cli):
    short = ["train", "CartPole-v1:ppo", *TINY, "--budget", "128"]
    root = cli.folder / "runs"
    assert cli(*short, "--run-id", "first", "-q").code == 0
    assert "gymlab resume first --budget" in cli("resume").out
    status = root / "first/status.json"
    files.write_json(status, {**files.read_json(status), "status": "running"})  # its process was killed
    assert cli("runs", "reindex").code == 0
    make_run(root, "without-checkpoint", "crashed")
    make_run(root, "newest", "finished")
    assert newest_run(root).run_id == "newest"
    done = cli("resume", "--json", "n_steps=16")
    assert json.loads(done.out.splitlines()[-1])["run_id"] == "first"


def test_a_process_is_signalled_only_when_it_is_the_one_that_is_meant():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        owner = Owner(process.pid, platform.host_name(), platform.process_start(process.pid))
        assert not send_signal(replace(owner, start="1"), 15)  # a later process with the same pid
        assert not send_signal(replace(owner, start=None), 15)
        assert not send_signal(replace(owner, host="elsewhere"), 15)
        assert not send_signal(Owner(0, owner.host, owner.start), 15)
        assert process.poll() is None
        assert send_signal(owner, 15)
        assert process.wait(10) == -15
        assert not send_signal(owner, 15)
    finally:
        process.kill()
        process.wait()


def test_a_request_reaches_the_owner_it_is_meant_for_and_no_later_one(folder):
    paths = make_run(folder / "runs", "one", "finished")
    me = Owner.me()
    assert not stop_requested(paths, me)
    assert request_stop(paths, replace(me, host="elsewhere")) == "file"
    assert stop_requested(paths, replace(me, host="elsewhere"))
    assert not stop_requested(paths, me)
    assert not (paths.root / "stop.json").exists()


def test_a_log_is_never_written_through_a_link_or_into_a_pipe(folder):
    (folder / "victim").write_text("mine")
    (folder / "run.log").symlink_to(folder / "victim")
    os.mkfifo(folder / "pipe.log")
    for name in ("run.log", "pipe.log"):
        with pytest.raises(OSError, match=name):
            logs.open_append(folder / name)
    assert (folder / "victim").read_text() == "mine"


def test_a_log_level_that_does_not_exist_leaves_no_run(cli, monkeypatch):
    monkeypatch.setenv("GYMLAB_LOG", "verbose")
    done = cli("train", "CartPole-v1:ppo", *TINY, "--budget", "100")
    assert done.code == 2
    assert "choose one of: debug, error, info, warning" in done.err
    assert not list((cli.folder / "runs").glob("*/manifest.json"))


def test_a_failed_run_logs_why_without_secrets(cli, monkeypatch):
    monkeypatch.setenv("MY_API_TOKEN", "canary-in-the-environment")
    features = '["tests.terminal.bells:Boom"]'
    with pytest.raises(RuntimeError, match="the feature failed"):
        cli("train", "CartPole-v1:ppo", *TINY, "--budget", "1k", f"features={features}", "--run-id", "one", "-q")
    log = (cli.folder / "runs/one/run.log").read_text()
    assert "ERROR   failed:\n    Traceback (most recent call last):" in log
    assert "RuntimeError: the feature failed ***" in log
    assert "canary" not in log
    assert json.loads(cli("runs", "list", "--json").out)[0]["status"] == "failed"
