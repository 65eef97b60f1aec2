"""Job of the queue as data: what is requested, what became of it, and the state that follows from its exit code."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypedDict, cast

from gymlab.campaigns.run_spec import RunState

JobState = Literal["waiting", "running", "done", "stopped", "failed", "cancelled"]
OPEN: tuple[JobState, ...] = ("waiting", "running")
RETRIES = 3
_STOPPED_BY_SIGNAL = (130, 143)  # gymlab's exit codes after a clean checkpoint

_LISTS = ("command", "hidden", "prompt")  # fields that are tuples
_STATE_OF_RUN: dict[RunState | None, JobState] = {
    RunState.FINISHED: "done",
    RunState.FAILED: "failed",
    RunState.STOPPED: "stopped",
}


@dataclass(frozen=True)
class JobRequest:
    """A job to be queued. `command` is gymlab's own arguments or, for a program, the whole argument list."""

    title: str
    command: tuple[str, ...]
    cwd: str
    hidden: tuple[str, ...] = ()  # arguments inserted after the command's name, which the user did not type
    program: bool = False
    run_id: str | None = None  # of the run it trains
    fresh: bool = False  # the command makes that run: where it exists already, it is resumed instead
    steps: int = 0  # env steps it may take, for the limit on all of them
    key: str | None = None  # idempotency key: of two requests with one key the second is ignored
    retries: int = RETRIES  # how often it is restarted after being killed
    prompt: tuple[str, ...] = ()  # gymlab's arguments that write the prompt file of a program
    minutes: float | None = None  # the most a program may take


class JobRecord(TypedDict, total=False):
    """A `Job` as JSON."""

    title: str
    command: list[str]
    cwd: str
    hidden: list[str]
    program: bool
    run_id: str | None
    fresh: bool
    steps: int
    key: str | None
    retries: int
    prompt: list[str]
    minutes: float | None
    id: str
    state: JobState
    attempts: int
    pid: int | None
    start: str | None
    exit_code: int | None
    cancelled: bool
    added: str
    started: str | None
    ended: str | None
    message: str


class LimitsRecord(TypedDict):
    """`QueueLimits` as JSON."""

    jobs: int
    steps: int | None


@dataclass(frozen=True)
class Job(JobRequest):
    """A request in the queue, with its state."""

    id: str = ""
    state: JobState = "waiting"
    attempts: int = 0
    pid: int | None = None
    start: str | None = None  # tells the process from a later one with the same pid
    exit_code: int | None = None
    cancelled: bool = False
    added: str = ""
    started: str | None = None
    ended: str | None = None
    message: str = ""  # why it is in this state

    @classmethod
    def from_request(cls, request: JobRequest, job_id: str, added: str) -> Job:
        return cls(**{field.name: getattr(request, field.name) for field in fields(request)}, id=job_id, added=added)

    @classmethod
    def from_json(cls, data: JobRecord) -> Job:
        values: dict[str, Any] = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        lists = {name: tuple(values.get(name, ())) for name in _LISTS}
        return cls(**values | lists)

    def as_json(self) -> JobRecord:
        return cast("JobRecord", asdict(self) | {name: list(getattr(self, name)) for name in _LISTS})

    @property
    def open(self) -> bool:
        return self.state in OPEN


@dataclass(frozen=True)
class QueueLimits:
    """What may run at once. A job that does not fit waits; one that never would runs alone."""

    jobs: int
    steps: int | None = None  # env steps of all running jobs together

    def admits(self, job: Job, running: list[Job]) -> bool:
        if not running:
            return True
        if len(running) >= self.jobs:
            return False
        return self.steps is None or job.steps + sum(other.steps for other in running) <= self.steps


def state_after_exit(job: Job, code: int | None, run_state: RunState | None) -> tuple[JobState, str]:
    """The state of a job whose process ended, and the reason: `waiting` where it is to be restarted.

    `code` is None or negative where it was killed. A fresh run may have ended before that: its state says so.
    """
    if code is None or code < 0:
        if job.fresh and run_state in _STATE_OF_RUN:
            return _STATE_OF_RUN[run_state], "killed after its run had ended"
        if job.cancelled:
            return "cancelled", "killed"
        if job.attempts <= job.retries:
            return "waiting", f"killed in attempt {job.attempts}: restarted"
        return "failed", f"killed in each of {job.attempts} attempts"
    if job.cancelled:
        return "cancelled", "stopped with a checkpoint" if job.run_id else "stopped"
    if code == 0:
        return "done", ""
    if code in _STOPPED_BY_SIGNAL:
        return "stopped", f"gymlab resume {job.run_id}" if job.run_id else f"exit code {code}"
    return "failed", f"exit code {code}"
