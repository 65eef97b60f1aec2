"""What waits in the queue: a job as data, and how its end is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

State = Literal["waiting", "running", "done", "stopped", "failed", "cancelled"]
OPEN: tuple[State, ...] = ("waiting", "running")
RETRIES = 3
_STOPPED_BY_SIGNAL = (130, 143)  # what gymlab ends with after a clean checkpoint


@dataclass(frozen=True)
class Wish:
    """What somebody wants done. `command` is gymlab's own arguments or, for a program, the whole argument list."""

    title: str
    command: tuple[str, ...]
    cwd: str
    hidden: tuple[str, ...] = ()  # arguments put right behind the command's name, not part of what the user asked
    program: bool = False
    run_id: str | None = None  # of the run it trains
    fresh: bool = False  # the command makes that run: once it is there, it is resumed instead
    steps: int = 0  # env steps it may take, for the limit on all of them
    key: str | None = None  # asked twice with one key, it is done once
    retries: int = RETRIES  # how often it is begun again after being killed
    prompt: tuple[str, ...] = ()  # gymlab's arguments that write the prompt file of a program
    minutes: float | None = None  # the most a program may take


@dataclass(frozen=True)
class Job(Wish):
    """A wish with its place in the queue and what became of it."""

    id: str = ""
    state: State = "waiting"
    attempts: int = 0
    pid: int | None = None
    start: str | None = None  # tells the process from a later one with the same pid
    exit_code: int | None = None
    cancelled: bool = False
    added: str = ""
    started: str | None = None
    ended: str | None = None
    told: str = ""  # why it ended as it did

    @classmethod
    def of(cls, wish: Wish, job_id: str, added: str) -> Job:
        return cls(**{field.name: getattr(wish, field.name) for field in fields(wish)}, id=job_id, added=added)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Job:
        lists = {name: tuple(data.get(name, ())) for name in ("command", "hidden", "prompt")}
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known} | lists)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def open(self) -> bool:
        return self.state in OPEN


@dataclass(frozen=True)
class Limits:
    """What may run at once. A job that does not fit waits; one that never would runs alone."""

    jobs: int
    steps: int | None = None  # env steps of all running jobs together

    def admits(self, job: Job, running: list[Job]) -> bool:
        if not running:
            return True
        if len(running) >= self.jobs:
            return False
        return self.steps is None or job.steps + sum(other.steps for other in running) <= self.steps


def verdict(job: Job, code: int | None, run_status: str | None) -> tuple[State, str]:
    """What has become of a job whose process ended: `waiting` where it is to be begun again.

    `code` is None or negative where it was killed. A fresh run then may still have said its last word before.
    """
    if code is None or code < 0:
        said: dict[str | None, State] = {"finished": "done", "failed": "failed", "stopped": "stopped"}
        if job.fresh and run_status in said:
            return said[run_status], "killed after its run had ended"
        if job.cancelled:
            return "cancelled", "killed"
        if job.attempts <= job.retries:
            return "waiting", f"killed in attempt {job.attempts}: begun again"
        return "failed", f"killed in each of {job.attempts} attempts"
    if job.cancelled:
        return "cancelled", "stopped with a checkpoint" if job.run_id else "stopped"
    if code == 0:
        return "done", ""
    if code in _STOPPED_BY_SIGNAL:
        return "stopped", f"gymlab resume {job.run_id}" if job.run_id else f"exit code {code}"
    return "failed", f"exit code {code}"
