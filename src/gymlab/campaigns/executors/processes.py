"""Process executor: commands as processes of their own, side by side, e.g. `gymlab train` as a user would type it.

A training survives this process: its run is found again by its name, and resumed or waited for. Processes are not
pinned to cores: JAX rounds by the number of cores it sees, and the command that a result names would give another run.
"""

from __future__ import annotations

import os
import queue
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, Self

from gymlab.campaigns.executors.protocol import (
    RunCommandBegan,
    RunFailed,
    RunFinished,
    RunNotBegun,
    RunOutput,
    RunProgressed,
    RunReport,
)
from gymlab.campaigns.run_spec import RunSpec, RunState, read_run_state
from gymlab.process.child import Child, gymlab_command
from gymlab.runs.status import read_status

POLL_SECONDS = 0.2
PROGRESS_SECONDS = 1.0  # between two reports of progress
_MESSAGE_CHARACTERS = 2000
_STOPPED = (130, 143, -signal.SIGTERM)  # exit codes after a SIGTERM of ours


class Command(NamedTuple):
    """A command that takes a run one step further."""

    phase: str  # for reports: train, resume, wait, score ...
    start: Callable[[], Child] | None  # None: nothing is started, the sequence is asked again at the next poll
    streams: bool = False  # its stdout is a pipe, whose lines are reported
    seconds: float | None = None  # it is killed after so many
    disposable: bool = False  # a stop kills it: it saves nothing


class CommandSequence(Protocol):
    """Which commands a run needs, one after the other."""

    def next(self, spec: RunSpec) -> Command | None:
        """The next one, by the run's folder; None where nothing is left to do."""

    def error(self, spec: RunSpec, command: Command, child: Child, *, timed_out: bool) -> str | None:
        """Why an ended command failed; None where it did not."""


class TrainCommands:
    """Trains a run by `RunSpec.arguments`, resumes it where it stopped, and waits while another process trains it."""

    def next(self, spec: RunSpec) -> Command | None:
        match read_run_state(spec.paths):
            case RunState.NOT_BEGUN:
                return train_command(spec, "train")
            case RunState.RUNNING:
                return train_command(spec, "wait")
            case RunState.FINISHED:
                return None
        return train_command(spec, "resume")

    def error(self, spec: RunSpec, command: Command, child: Child, *, timed_out: bool) -> str | None:
        del spec, command, timed_out
        return child.output_text()[-_MESSAGE_CHARACTERS:].strip() if child.exit_code else None


def train_command(spec: RunSpec, phase: Literal["train", "resume", "wait"]) -> Command:
    """The command of one phase of a training."""
    if phase == "wait":
        return Command(phase, None)
    resume = ("resume", str(spec.paths.root.resolve()), "-q")
    return Command(phase, lambda: start_gymlab(*(spec.arguments if phase == "train" else resume)))


def start_gymlab(*arguments: str) -> Child:
    """A gymlab command without videos whose output is in a file. Ctrl-C at the terminal reaches it only through us."""
    environ = {"GYMLAB_VIDEO": "off", **os.environ}
    return Child(gymlab_command(*arguments), stdout="file", stderr="stdout", environ=environ, session="own")


@dataclass
class _ActiveRun:
    """A run that occupies one of the executor's places."""

    spec: RunSpec
    command: Command | None = None
    child: Child | None = None
    output_ended: bool = True  # of a command that streams
    deadline: float | None = None
    timed_out: bool = False
    terminated: int = 0  # how many stops it has received


class ProcessExecutor:
    """An `Executor`: `size` runs at a time, each by the commands of a sequence."""

    def __init__(self, size: int, commands: CommandSequence | None = None) -> None:
        self.size = size
        self._commands = commands or TrainCommands()
        self._waiting: deque[RunSpec] = deque()
        self._active: list[_ActiveRun] = []
        self._lines: queue.Queue[tuple[_ActiveRun, str | None]] = queue.Queue()
        self._stops = 0
        self._reported = 0.0

    @property
    def description(self) -> str:
        return f"{self.size} process{'es' * (self.size > 1)}"

    def submit(self, spec: RunSpec) -> None:
        self._waiting.append(spec)

    def stop(self, reason: str) -> None:
        """SIGTERM to all processes, as often as it is called. May be called by a signal handler."""
        del reason
        self._stops += 1

    def reports(self) -> Iterator[RunReport]:
        while self._waiting or self._active:
            if self._stops:
                while self._waiting:
                    yield RunNotBegun(self._waiting.popleft().number)
                self._terminate()
            while self._waiting and len(self._active) < self.size:
                self._active.append(_ActiveRun(self._waiting.popleft()))
            for run in list(self._active):
                yield from self._advance(run)
            yield from self._progress()
            yield from self._output()

    def _terminate(self) -> None:
        for run in self._active:
            if run.child is not None and run.terminated < self._stops:
                run.terminated = self._stops
                if run.command is not None and run.command.disposable:
                    run.child.kill()
                else:
                    run.child.terminate()

    def _advance(self, run: _ActiveRun) -> Iterator[RunReport]:
        """Look whether a run's process has ended, and start its next command."""
        number = run.spec.number
        if run.child is not None:
            if not self._ended(run):
                return
            failed = self._close_command(run)
            if failed is not None:
                self._active.remove(run)
                yield failed
                return
        command = self._commands.next(run.spec)
        if command is None or self._stops:
            self._active.remove(run)
            yield RunFinished(number, {"status": str(read_run_state(run.spec.paths)), "exit_code": 0})
            return
        if run.command is None or run.child is not None or run.command.phase != command.phase:
            yield RunCommandBegan(number, command.phase)
        run.command = command
        run.child = None if command.start is None else command.start()
        run.deadline = None if command.seconds is None else time.monotonic() + command.seconds
        if run.child is not None and command.streams:
            run.output_ended = False
            run.child.listen(lambda line: self._lines.put((run, line)))

    def _ended(self, run: _ActiveRun) -> bool:
        assert run.child is not None
        if run.deadline is not None and not run.timed_out and time.monotonic() > run.deadline:
            run.timed_out = True
            run.child.kill()
        return run.child.poll() is not None and run.output_ended

    def _close_command(self, run: _ActiveRun) -> RunReport | None:
        """Take the result of a command that ended; a report where it is the run's last."""
        assert run.child is not None
        assert run.command is not None
        error = self._commands.error(run.spec, run.command, run.child, timed_out=run.timed_out)
        code = run.child.end()
        if error is None:
            return None
        if self._stops and (code in _STOPPED or run.command.disposable):
            return RunFinished(run.spec.number, {"status": str(RunState.STOPPED), "exit_code": code})
        return RunFailed(run.spec.number, error, begun=run.spec.paths.exists)

    def _progress(self) -> Iterator[RunReport]:
        if time.monotonic() - self._reported < PROGRESS_SECONDS:
            return
        self._reported = time.monotonic()
        for run in self._active:
            spec = run.spec
            clock = read_status(spec.paths).get("clock") if spec.paths.exists else None
            steps = int(clock.get("env_steps") or 0) if isinstance(clock, dict) else 0
            updates = int(clock.get("updates") or 0) if isinstance(clock, dict) else 0
            share = min(steps / spec.budget_env_steps, 1.0) if spec.budget_env_steps else 0.0
            yield RunProgressed(spec.number, steps, updates, share)

    def _output(self) -> Iterator[RunReport]:
        """The lines of commands that stream, until the next poll is due."""
        due = time.monotonic() + POLL_SECONDS
        while self._active and (left := due - time.monotonic()) > 0:
            try:
                run, line = self._lines.get(timeout=left)
            except queue.Empty:
                return
            if line is None:
                run.output_ended = True
                return
            yield RunOutput(run.spec.number, line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Where `reports` was left early: trainings are asked to end with a checkpoint, all else is killed."""
        for run in self._active:
            if run.child is None or run.command is None:
                continue
            if run.command.disposable:
                run.child.end()
            else:
                run.child.terminate()
                run.child.release()
        self._active.clear()
