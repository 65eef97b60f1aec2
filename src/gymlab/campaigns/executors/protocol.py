"""Executor: trains a set of runs and reports on them. Every campaign uses one through this protocol.

    with Pool(4) as executor:                       # or VmappedExecutor(), ProcessExecutor(4, commands)
        for number, ... in enumerate(...):
            executor.submit(RunSpec(number, root, run_id, seed, recipe=...))
        for report in executor.reports():           # ends after the last report of every submitted run
            if isinstance(report, RunEnd):          # RunFinished, RunFailed or RunNotBegun: exactly one per run
                executor.submit(...)                # more may be submitted on the way

- `Pool`: warm worker processes, one run each at a time. Numbers are those of a run by itself.
- `VmappedExecutor`: all submitted runs in one vmapped program; what is submitted meanwhile is the next program.
- `ProcessExecutor`: `gymlab train ...` as processes of their own, which survive this one. Its `CommandSequence` says
  which command a run needs next: `campaigns.scored_runs` scores each after training, `campaigns.smoke` checks a recipe.

A campaign does not ask which one it has, except for `size`: how many runs to keep submitted. It never keeps state of
its own about a run: `run_spec.read_run_state` reads it from the run's folder, so that a campaign can be killed and
started again. Signals: `watch_signals(executor.stop)` around `reports()`; runs under way then end with a checkpoint.

An executor on other machines (ssh, slurm, ray) is one more file here: it sends `RunSpec.encode()`, or starts
`RunSpec.arguments`, and yields reports. Anything that accepts an `Executor` can then use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from gymlab.campaigns.run_spec import RunSpec
from gymlab.core.types import Json
from gymlab.runs.records import ResultRecord


class Executor(Protocol):
    """Trains the runs that are submitted to it."""

    @property
    def size(self) -> int | None:
        """How many runs are trained at once; None where it is all that are submitted."""

    @property
    def description(self) -> str:
        """For a title, e.g. `2 processes`."""

    def submit(self, spec: RunSpec) -> None: ...

    def reports(self) -> Iterator[RunReport]:
        """Everything that is reported, until every submitted run has had its last report."""

    def stop(self, reason: str) -> None:
        """Runs under way end with a checkpoint, no other is begun. May be called by a signal handler."""


@dataclass(frozen=True)
class RunReport:
    """A message about one run."""

    member: int  # `RunSpec.number`


@dataclass(frozen=True)
class RunBegan(RunReport):
    line: str = ""  # the first line of a run
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunProgressed(RunReport):
    env_steps: int = 0
    updates: int = 0
    progress: float = 0.0
    mean_return: float | None = None  # of the last training episodes
    steps_per_second: float | None = None


@dataclass(frozen=True)
class RunScored(RunReport):
    """An evaluation."""

    env_steps: int = 0
    kind: str = "periodic"
    score: float | None = None


@dataclass(frozen=True)
class RunAlerted(RunReport):
    env_steps: int = 0
    alert: str = ""
    severity: str = ""


@dataclass(frozen=True)
class RunFinished(RunReport):
    """The end of a session, by itself or stopped: what `gymlab train --json` would print."""

    result: ResultRecord = field(default_factory=ResultRecord)


@dataclass(frozen=True)
class RunFailed(RunReport):
    """No result. `refused`: a mistake of the user's, and no run was made; `begun`: there is a run to resume."""

    message: str = ""
    refused: bool = False
    begun: bool = True


@dataclass(frozen=True)
class RunNotBegun(RunReport):
    """It was stopped before its run was made."""


@dataclass(frozen=True)
class RunCommandBegan(RunReport):
    """A command was started for a run, by an executor that starts commands."""

    phase: str = ""  # train, resume, wait, score ...


@dataclass(frozen=True)
class RunOutput(RunReport):
    """A line that a command has printed."""

    line: str = ""


RunEnd = RunFinished | RunFailed | RunNotBegun  # the last report of a run is one of these
_TYPES: tuple[type[RunReport], ...] = (
    RunBegan,
    RunProgressed,
    RunScored,
    RunAlerted,
    RunFinished,
    RunFailed,
    RunNotBegun,
    RunCommandBegan,
    RunOutput,
)
_TYPE_OF = {kind.__name__.removeprefix("Run"): kind for kind in _TYPES}


def report_fields(report: RunReport) -> dict[str, Json]:
    """A report as JSON, its type first: `{"report": "Finished", "member": 0, ...}`."""
    return {"report": type(report).__name__.removeprefix("Run"), **asdict(report)}


def encode_report(report: RunReport) -> str:
    """One line of JSON."""
    return json.dumps(report_fields(report))


def decode_report(line: str) -> RunReport:
    """The inverse of `encode_report`."""
    values: dict[str, Any] = json.loads(line)
    kind = _TYPE_OF[values.pop("report")]
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return kind(**values | lists)
