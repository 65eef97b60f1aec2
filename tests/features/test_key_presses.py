"""Keys during training do what they say, change nothing that is learnt, and restore the terminal."""

import os
import signal
import sys
import termios
import time

import pytest

from gymlab.features.key_presses import KeyPresses, make_key_presses, typed_keys
from gymlab.recipes.resolve import resolve
from gymlab.runs.checkpoints import load_checkpoint
from gymlab.runs.metrics_reader import MetricsReader
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from gymlab.session.session import Options
from gymlab.session.start import train
from gymlab.terminal.keyboard import parse_keys
from gymlab.training.events import Checkpointed, Evaluated, Feature, Paused, Stopping
from tests.terminal.test_restore import BELL, TINY, TerminalCommand

CONTROL_Z = b"\x1a"
SMALL = ["n_envs=4", "n_steps=16", "batch_size=32", "epochs=2", "policy.hidden=[8]", "eval.episodes=2"]
SMALL += ["eval.final_episodes=2", "eval.every=50%", "metrics.statistics=basic"]


class FakeKeyboard:
    """Returns one entry of `typed` per poll."""

    def __init__(self, *typed):
        self.typed, self.calls = list(typed), []

    def open(self):
        self.calls.append("open")

    def restore(self):
        self.calls.append("restore")

    def read(self):
        key = self.typed.pop(0) if self.typed else ""
        return key() or [] if callable(key) else list(key)


class Listener(Feature):
    name = "listener"

    def __init__(self):
        self.events = []

    def __call__(self, event, control):
        if isinstance(event, Evaluated | Checkpointed | Paused | Stopping):
            self.events.append(event)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


def train_with_keys(folder, name, *typed, monkeypatch):
    monkeypatch.setattr("gymlab.features.key_presses.POLL_SECONDS", 0.0)
    recipe = resolve("CartPole-v1:ppo", SMALL, budget="2k").recipe
    listener, keyboard = Listener(), FakeKeyboard(*typed)
    with KeyPresses(keyboard) as keys:
        result = train(recipe, Options(0, name, full_budget=True), folder / "runs", watchers=[keys, listener])
    assert keyboard.calls[0] == "open"
    assert keyboard.calls[-1] == "restore"
    return result, listener


@pytest.mark.slow
def test_keys_change_nothing_that_is_learnt(folder, monkeypatch):
    plain, plain_events = train_with_keys(folder, "plain", monkeypatch=monkeypatch)
    monkeypatch.setenv("GYMLAB_LOG", "debug")
    began = time.perf_counter()
    result, listener = train_with_keys(
        folder, "disturbed", "", "e", "c", "p", *[""] * 8, "ec", "p", "g?a", "pp", monkeypatch=monkeypatch
    )
    seconds = time.perf_counter() - began
    assert len(listener.of(Evaluated)) == len(plain_events.of(Evaluated)) + 2
    assert len(listener.of(Checkpointed)) >= len(plain_events.of(Checkpointed)) + 1
    left, right = (load_checkpoint(RunPaths(folder / "runs" / name), "last") for name in ("plain", "disturbed"))
    for part in ("policy", "state"):
        mine, theirs = getattr(left, part), getattr(right, part)
        assert {name: mine[name].tobytes() for name in mine} == {name: theirs[name].tobytes() for name in theirs}
    assert result.clock._replace(seconds=0) == plain.clock._replace(seconds=0)
    paused = listener.of(Paused)
    assert paused[0].seconds == 0
    assert paused[-1].seconds > 0.4
    assert result.clock.seconds < seconds - paused[-1].seconds  # the clock stops during a pause
    check_log(folder / "runs/disturbed/run.log", "paused at ", "continued after a pause of 0.", " DEBUG   ")
    update = paused[0].clock.updates
    with MetricsReader(RunPaths(folder / "runs/disturbed").metrics) as reader:
        assert "eval/greedy_mean" in reader.row(update)
        assert reader.row(update + 1)["seconds"] - reader.row(update)["seconds"] < 0.4 + paused[-1].seconds / 2


def check_log(path, *expected):
    text = path.read_text()
    assert "\x1b" not in text
    assert [words for words in expected if words not in text] == []


def test_a_paused_run_can_be_stopped_by_a_key(folder, monkeypatch):
    monkeypatch.setenv("GYMLAB_LOG", "warning")
    result, listener = train_with_keys(folder, "one", "p", "", "s", monkeypatch=monkeypatch)
    assert " INFO " not in (folder / "runs/one/run.log").read_text()
    assert (result.status, result.stop_reason, result.exit_code) == ("stopped", "stopped by a key press", 143)
    assert len(listener.of(Paused)) == 2
    assert read_status(RunPaths(folder / "runs/one"))["status"] == "stopped"


def test_a_paused_run_can_be_stopped_by_a_signal(folder, monkeypatch):
    kill = lambda: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
    result, listener = train_with_keys(folder, "one", "p", "", kill, monkeypatch=monkeypatch)
    assert (result.status, result.stop_reason) == ("stopped", "interrupted by SIGTERM")
    assert len(listener.of(Paused)) == 2


@pytest.mark.parametrize(
    ("typed", "keys"),
    [("p", ["p"]), ("pe", ["p", "e"]), ("\x1b[A\x1bOPs", ["s"]), ("\x1b", []), ("s" * 100, []), ("ls\n", [])],
)
def test_arrows_and_pasted_text_are_ignored(typed, keys):
    assert typed_keys(parse_keys(typed)[0]) == keys


@pytest.mark.parametrize("mode", ["people", "quiet", "json", "jsonl"])
def test_key_presses_are_disabled_without_a_terminal(mode, monkeypatch):
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert make_key_presses(mode)._keyboard is None
    monkeypatch.setattr(sys, "stdin", None)  # as in some services
    with make_key_presses(mode) as keys:
        assert keys._keyboard is None


class ShellJob(TerminalCommand):
    """The command as a job of a shell, which waits while it is stopped until the file `stopped` is removed."""

    starter = """
import os, signal, sys, time
os.setsid()
os.close(os.open(os.ttyname(0), os.O_RDWR))
child = os.fork()
if not child:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-m", "gymlab", *sys.argv[1:]])
while os.WIFSTOPPED(status := os.waitpid(child, os.WUNTRACED)[1]):
    open("stopped", "w").close()
    while os.path.exists("stopped"):
        time.sleep(0.01)
    os.killpg(child, signal.SIGCONT)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_keys_work_in_a_real_terminal_which_control_z_restores(folder):
    command = ShellJob(folder, "train", BELL, *TINY, "--budget", "400k")
    try:
        command.read_until(lambda: b"steps/s" in command.written)
        assert reads_keys(command)

        def press(keys, answer):
            command.written = b""
            os.write(command.master, keys)
            command.read_until(lambda: answer in command.written)

        press(b"p", b"paused for 0:00")
        press(b"e", b"eval at ")
        press(b"c", b"checkpoint ")
        press(b"g", b"roll ")
        press(b"?", b"s stop")
        press(CONTROL_Z, b"\x1b[?25h")
        command.read_until((folder / "stopped").exists)
        assert termios.tcgetattr(command.slave) == command.before
        (folder / "stopped").unlink()
        command.read_until(lambda: reads_keys(command))
        press(b"p", b"steps/s")
        press(b"s", b"stopped: stopped by a key press")
        assert command.end() == 143
        assert termios.tcgetattr(command.slave) == command.before
        assert read_status(RunPaths(folder / "runs/one"))["status"] == "stopped"
    finally:
        command.close()


def reads_keys(command):
    return not termios.tcgetattr(command.slave)[3] & (termios.ICANON | termios.ECHO)
