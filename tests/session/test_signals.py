"""Signals: the first ends a run in order, the second at once, and nothing is lost either way."""

import json
import os
import signal
import time

import pytest

from gymlab.core.errors import UserError
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.session.signals import Interrupted, guard_process, watch_signals
from tests.running import assert_same_run, start
from tests.terminal.bells import Bell
from tests.waiting import wait_until

TINY = ["n_envs=4", "n_steps=8", "batch_size=32", "policy.hidden=[8]", "eval.max_envs=4", "vectorization=sync"]
TINY += ["metrics.statistics=basic"]
# The check for copies steps envs too, which would move the bell.
QUIET = ["eval.episodes=16", "eval.final_episodes=16", "eval.every=96", "alerts.off=[identical-envs]"]
BELL = ["tests.terminal.bells:Bell-v0:ppo", *TINY, *QUIET]
ENDS = {
    "budget": ["--budget", "224"],
    "solved": ["--budget", "10k", "stop.eval_return=0.1", "stop.solved_by=sampled", "eval.warmup=150"],
    "train return": ["--budget", "10k", "stop.train_return=0.1", "stop.eval_return=1e6"],
}


def ring_at(step):
    Bell.at, Bell.steps = step, 0


@pytest.mark.parametrize("end", ENDS)
def test_a_signal_abandons_an_evaluation_which_is_made_up_for_exactly(cli, end):
    ring_at(0)
    whole = cli("train", *BELL, *ENDS[end], "--run-id", "whole", "--json")
    assert whole.code == 0, whole.err
    reason, total = json.loads(whole.out.splitlines()[-1])["stop_reason"], Bell.steps
    assert reason.startswith({"solved": "solved", "budget": "budget", "train return": "train_return"}[end])
    # In the middle of a periodic evaluation, and of the last one: the final or, where it is solved, the confirming.
    for number, step in enumerate([total // (3 if end == "budget" else 2), total - 60]):
        run = f"stopped-{number}"
        ring_at(step)
        done = cli("train", *BELL, *ENDS[end], "--run-id", run, "--json")
        assert done.code == 143, (step, done.err)
        told = json.loads(done.out.splitlines()[-1])
        assert (told["status"], told["stop_reason"]) == ("stopped", "interrupted by SIGTERM")
        assert Bell.steps <= step + 8, "the evaluation was not abandoned"
        again = cli("resume", run, "--json")
        assert again.code == 0, again.err
        assert json.loads(again.out.splitlines()[-1])["stop_reason"] == reason
        assert_same_run(cli.folder / "runs/whole", cli.folder / "runs" / run)


def stuck(folder, *more, env="Stuck-v0", **environ):
    """A run that hangs inside an env, after some updates."""
    command = ["train", f"tests.terminal.bells:{env}:ppo", *TINY, "eval.every=100%", "--run-id", "one", *more]
    process = start(*command, cwd=folder, **environ)
    wait_until((folder / "stuck").exists, process=process)
    time.sleep(0.3)
    return process


def test_an_update_that_does_not_end_is_abandoned_in_bounded_time(folder):
    process = stuck(folder, GYMLAB_GRACE="1")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # as `timeout` does: the same signal twice is one
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 143, output
    assert time.monotonic() - began > 0.9  # the grace; without a bound the env would hang for two minutes
    paths = RunPaths(folder / "runs/one")
    status = read_status(paths)
    assert status["status"] == "stopped"
    assert status["stop_reason"].startswith("interrupted by SIGTERM, with its last checkpoint: a clean end would take")
    assert load_checkpoint(paths, "last").notes == []


def test_a_second_signal_ends_the_process_at_once(folder):
    process = stuck(folder)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=100)  # less than the env hangs for
    assert process.returncode == 130, output
    assert "the second signal ends it at once; continue: gymlab resume one" in output
    paths = RunPaths(folder / "runs/one")
    assert read_status(paths)["status"] == "stopped"
    assert load_checkpoint(paths, "last").notes == []


def test_a_signal_before_training_leaves_no_run(folder):
    git = folder / "bin" / "git"  # asked for the manifest, when there is a folder already
    git.parent.mkdir()
    git.write_text("#!/bin/sh\ntouch stuck\nexec sleep 60\n")
    git.chmod(0o755)
    process = stuck(folder, env="Bell-v0", PATH=f"{git.parent}{os.pathsep}{os.environ['PATH']}")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 143
    assert output.strip().splitlines()[-1] == "interrupted by SIGTERM before training began"
    assert "Traceback" not in output
    assert [path.name for path in (folder / "runs").iterdir()] == [".gitignore"]


def test_before_training_a_signal_raises_and_inside_a_run_it_does_not():
    heard = []
    with pytest.raises(Interrupted) as ended, guard_process():
        signal.raise_signal(signal.SIGHUP)
    assert ended.value.code == 143
    with guard_process() as guard, watch_signals(heard.append):
        signal.raise_signal(signal.SIGINT)
    assert heard == ["interrupted by SIGINT"]
    assert guard.exit_code == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_held_back_a_signal_waits():
    steps = []

    def work():
        signal.raise_signal(signal.SIGTERM)
        steps.append("done")

    with pytest.raises(Interrupted), guard_process() as guard, guard.held():
        work()
    assert steps == ["done"]


def test_in_somebody_elses_process_the_second_signal_is_a_keyboard_interrupt():
    heard = []

    def press_twice():
        signal.raise_signal(signal.SIGINT)
        assert heard == ["interrupted by SIGINT"]
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), watch_signals(heard.append):
        press_twice()


def test_who_ignores_hangups_goes_on_without_a_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with guard_process():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("given", ["soon", "-1", "0", "nan"])
def test_a_grace_that_is_no_number_of_seconds_is_refused(monkeypatch, given):
    monkeypatch.setenv("GYMLAB_GRACE", given)
    with pytest.raises(UserError, match="GYMLAB_GRACE"), guard_process():
        pass


class Finaliser:
    """A signal that strikes in here finds nobody to tell."""

    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_that_strikes_in_a_finaliser_is_not_lost(capfd):
    def work():
        thing = Finaliser()
        del thing
        time.sleep(10)
        raise AssertionError("the signal was lost")

    with pytest.raises(Interrupted), guard_process():
        work()
    assert capfd.readouterr().err == ""
