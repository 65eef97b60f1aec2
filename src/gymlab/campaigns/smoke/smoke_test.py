"""Smoke test: checks recipes, some at a time, each in a process and a temporary folder of its own."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Self

from gymlab.campaigns.executors.processes import Command, ProcessExecutor
from gymlab.campaigns.executors.protocol import RunCommandBegan, RunEnd, RunFailed, RunOutput
from gymlab.campaigns.run_spec import RunSpec
from gymlab.campaigns.smoke.candidates import Candidate
from gymlab.campaigns.smoke.check_recipe import STAGES
from gymlab.process.child import Child, start_worker


@dataclass
class RecipeCheck:
    """How far the check of a recipe has come."""

    recipe: str
    family: str
    status: Literal["waiting", "running", "ok", "failed", "skipped"] = "waiting"
    stages: dict[str, str] = field(default_factory=dict)  # passed ones, and how
    seconds: float = 0.0
    reason: str = ""  # why it failed or was skipped
    reproduce: str = ""  # a command that shows it

    @property
    def over(self) -> bool:
        return self.status not in ("waiting", "running")

    @property
    def stage(self) -> str:
        """The first one that was not passed."""
        return next((stage for stage in STAGES if stage not in self.stages), "")

    def fail(self, reason: str) -> None:
        self.reason = reason
        self.status = "failed"
        self.reproduce = f"gymlab smoke {shlex.quote(self.recipe)}"

    def read(self, line: str) -> None:
        """Take in a line of the process that checks the recipe."""
        message: dict[str, str] = json.loads(line)
        if "stage" in message:
            self.stages[message["stage"]] = message["how"]
        elif "skipped" in message:
            self.status = "skipped"
            self.reason = message["skipped"]
        elif "failed" in message:
            self.fail(message["failed"])
        else:
            self.status = "ok"


class SmokeTest:
    """The checks of some recipes. Leaving the context ends those that still run."""

    def __init__(self, candidates: Sequence[Candidate], jobs: int, timeout: float) -> None:
        self.checks = [RecipeCheck(found.reference, found.family) for found in candidates]
        self._commands = _CheckCommands(timeout)
        self._executor = ProcessExecutor(jobs, self._commands)

    def run(self) -> Iterator[RecipeCheck | None]:
        """Every check once it is over; None when a running one may have come further."""
        started: dict[int, float] = {}
        for number, check in enumerate(self.checks):
            self._executor.submit(RunSpec(number, "", check.recipe, 0, arguments=(check.recipe,)))
        for report in self._executor.reports():
            check = self.checks[report.member]
            if isinstance(report, RunCommandBegan):
                started[report.member] = time.perf_counter()
                check.status = "running"
            elif isinstance(report, RunOutput):
                check.read(report.line)
            elif isinstance(report, RunEnd):
                if not check.over:
                    check.fail(report.message if isinstance(report, RunFailed) else "its process printed no result")
                check.seconds = time.perf_counter() - started[report.member]
                yield check
                continue
            yield None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.__exit__()
        self._commands.remove_folders()


class _CheckCommands:
    """One command per recipe: `check_recipe` in a temporary folder."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._folders: dict[int, str] = {}
        self._done: set[int] = set()

    def next(self, spec: RunSpec) -> Command | None:
        if spec.number in self._done:
            return None
        return Command("check", lambda: self._start(spec), streams=True, seconds=self._timeout, disposable=True)

    def _start(self, spec: RunSpec) -> Child:
        folder = self._folders[spec.number] = tempfile.mkdtemp(prefix="gymlab-smoke-")
        return start_worker("gymlab.campaigns.smoke.check_recipe", arguments=(*spec.arguments, folder))

    def error(self, spec: RunSpec, command: Command, child: Child, *, timed_out: bool) -> str | None:
        del command
        self._done.add(spec.number)
        shutil.rmtree(self._folders.pop(spec.number), ignore_errors=True)
        if timed_out:
            return f"not done after {self._timeout:g} s"
        return _death(child) if child.exit_code else None

    def remove_folders(self) -> None:
        for folder in self._folders.values():
            shutil.rmtree(folder, ignore_errors=True)


def _death(child: Child) -> str:
    """How a process died, by its signal or exit code and its last line on stderr."""
    code = child.exit_code or 0
    how = f"exit code {code}"
    if code < 0:
        with suppress(ValueError):
            how = signal.Signals(-code).name
    lines = child.stderr_text().strip().splitlines()
    return f"its process died ({how})" + (f": {lines[-1][:300]}" if lines else "")
