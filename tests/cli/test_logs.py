"""`gymlab logs`, and what a run writes to its log."""

import json
import os

import pytest

from gymlab.features import logfile
from gymlab.runs import logs
from tests.cli.stored_runs import TINY, make_run


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
