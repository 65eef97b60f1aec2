"""What a pool and its workers say to each other: tasks one way, reports the other, one JSON object a line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Task:
    """A run to train, or to go on with."""

    number: int  # of the member, in everything a worker reports of it
    runs_root: str
    run_id: str
    seed: int
    recipe: str = ""  # of a new run: YAML with every value
    registered: str | None = None  # the env's registration, where a script made it
    resume: bool = False
    overrides: tuple[str, ...] = ()  # of one that goes on
    budget: str | None = None
    full_budget: bool = False
    reschedule: bool = False
    group: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None
    command: tuple[str, ...] = ()
    solved_at_source: str | None = None
    init_from: str | None = None
    pause_at: int | None = None  # env_steps: evaluate there and end the session, to be gone on with
    stop_sick: bool = False  # end the session at the first critical alert
    wandb: str | None = None  # the project
    tensorboard: bool = False

    def line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, line: str) -> Task:
        return cls(**_fields(line))


@dataclass(frozen=True)
class Report:
    """Something about one member."""

    member: int


@dataclass(frozen=True)
class Began(Report):
    line: str = ""  # the first line of a run
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progressed(Report):
    env_steps: int = 0
    updates: int = 0
    progress: float = 0.0
    mean_return: float | None = None  # of the last training episodes
    steps_per_second: float | None = None


@dataclass(frozen=True)
class Scored(Report):
    """An evaluation."""

    env_steps: int = 0
    kind: str = "periodic"
    score: float | None = None


@dataclass(frozen=True)
class Alerted(Report):
    env_steps: int = 0
    alert: str = ""
    severity: str = ""


@dataclass(frozen=True)
class Finished(Report):
    """The end of a session, by itself or stopped: what `gymlab train --json` would print."""

    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Failed(Report):
    """No result. `refused`: a mistake of the user's, and no run was made; `begun`: there is a run to go on with."""

    message: str = ""
    refused: bool = False
    begun: bool = True


@dataclass(frozen=True)
class NotBegun(Report):
    """It was stopped before there was anything of it."""


ENDS = (Finished, Failed, NotBegun)  # the last report of a member is one of these
_KINDS: dict[str, type[Report]] = {
    kind.__name__: kind for kind in (Began, Progressed, Scored, Alerted, Finished, Failed, NotBegun)
}


def report_fields(report: Report) -> dict[str, Any]:
    """A report as JSON, its kind first."""
    return {"report": type(report).__name__, **asdict(report)}


def report_line(report: Report) -> str:
    return json.dumps(report_fields(report))


def read_report(line: str) -> Report:
    fields = _fields(line)
    return _KINDS[fields.pop("report")](**fields)


def _fields(line: str) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(line).items()}
