"""Run specification: one run to train, or to resume, as data; and the state it is in, read from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gymlab.process import messages
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status


@dataclass(frozen=True)
class RunSpec:
    """A run for an executor. JSON can hold it, so it can be sent to another process or machine."""

    number: int  # identifies the run in every report
    runs_root: str
    run_id: str
    seed: int
    recipe: str = ""  # of a new run: YAML with every value
    registered: str | None = None  # the env's registration, where a script made it
    resume: bool = False
    overrides: tuple[str, ...] = ()  # of a resumed run, as the next four
    budget: str | None = None
    full_budget: bool | None = False  # None: of a resumed run, as it was begun
    reschedule: bool = False
    group: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None
    command: tuple[str, ...] = ()  # what the user typed, for the manifest
    solved_at_source: str | None = None
    init_from: str | None = None
    pause_at: int | None = None  # env_steps: evaluate there and stop the session; the run can be resumed
    stop_at_critical: bool = False  # stop the session at the first critical alert
    wandb: str | None = None  # the project
    tensorboard: bool = False
    arguments: tuple[str, ...] = ()  # gymlab's arguments that train it, for executors that start commands
    budget_env_steps: int | None = None  # for executors that read the progress from the run's folder

    @property
    def paths(self) -> RunPaths:
        return RunPaths(Path(self.runs_root) / self.run_id)

    def encode(self) -> str:
        """One line of JSON."""
        return messages.encode(self)

    @classmethod
    def decode(cls, line: str) -> RunSpec:
        """The inverse of `encode`."""
        return messages.decode(line, cls)


class RunState(StrEnum):
    """The state of a run, whichever executor trains it: its folder is the only source."""

    NOT_BEGUN = "not begun"  # there is no run of that name
    RUNNING = "running"  # a live process holds its lock
    STOPPED = "stopped"  # with a checkpoint: it can be resumed
    CRASHED = "crashed"  # its process died: it can be resumed
    FAILED = "failed"
    FINISHED = "finished"

    @property
    def over(self) -> bool:
        """No process trains it, and training it further takes a longer budget or another recipe."""
        return self in (RunState.FINISHED, RunState.FAILED)


def read_run_state(paths: RunPaths) -> RunState:
    """The state of a run by its manifest, lock and status file."""
    return RunState(read_status(paths)["status"]) if paths.exists else RunState.NOT_BEGUN
