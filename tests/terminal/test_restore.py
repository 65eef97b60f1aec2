"""A real terminal is restored, whatever ends a run."""

import os
import sys
import time

import pytest

from gymlab.cli.main import main
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status
from tests.terminal.terminal_command import TerminalCommand

TINY = ["n_envs=4", "n_steps=8", "batch_size=32", "policy.hidden=[8]", "eval.max_envs=4", "vectorization=sync"]
TINY += ["metrics.statistics=basic"]
TINY += ["eval.episodes=2", "eval.final_episodes=2", "--budget", "640", "--full-budget", "--run-id", "one"]
BELL = "tests.terminal.bells:Bell-v0:ppo"
CONTROL_C = b"\x03"


@pytest.fixture
def start_command(folder):
    commands = []

    def start(*command):
        commands.append(TerminalCommand(folder, *command))
        return commands[-1]

    yield start
    for command in commands:
        command.close()


def test_the_terminal_is_restored_after_a_finished_run(start_command):
    command = start_command("train", BELL, *TINY)
    assert command.end() == 0, command.written.decode()
    command.assert_restored()
    assert b"next: gymlab runs show one" in command.written


def test_the_terminal_is_restored_after_control_c_twice(start_command, folder):
    command = start_command("train", "tests.terminal.bells:Stuck-v0:ppo", *TINY)
    command.read_until((folder / "stuck").exists)
    os.write(command.master, CONTROL_C)
    command.read_until(lambda: b"once more ends it at once" in command.written)
    time.sleep(0.2)
    os.write(command.master, CONTROL_C)
    assert command.end() == 130, command.written.decode()
    command.assert_restored()
    assert read_status(RunPaths(folder / "runs/one"))["status"] == "stopped"


def test_the_terminal_is_restored_after_a_failing_feature(start_command, folder):
    command = start_command("train", BELL, *TINY, 'features=["tests.terminal.bells:Boom"]')
    assert command.end() == 1
    command.assert_restored()
    assert b"the feature failed" in command.written
    assert read_status(RunPaths(folder / "runs/one"))["status"] == "failed"


def test_a_closed_terminal_stops_the_run_cleanly(start_command, folder):
    command = start_command("train", BELL, *TINY, "--budget", "500M", "vectorization=processes")
    command.read_until(lambda: "▁".encode() in command.written or b"steps/s" in command.written)
    os.close(command.slave)
    os.close(command.master)
    command.master = command.slave = None
    assert command.process.wait(30) == 143
    status = read_status(RunPaths(folder / "runs/one"))
    assert (status["status"], status["stop_reason"]) == ("stopped", "interrupted by SIGHUP")


def test_a_closed_pipe_does_not_end_a_run(folder, monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", nobody)
        patch.setattr(sys, "argv", ["gymlab", "train", BELL, *TINY])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    assert read_status(RunPaths(folder / "runs/one"))["status"] == "finished"
