"""Trains and scores trials as processes of their own, side by side: what a user would type.

Nothing is lost when this process ends: a trial is a normal run, found again by its name, gone on with or waited for.
None is kept to a core of its own: JAX rounds by the number of cores it sees, and the command that a result names would
give another run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Literal, NamedTuple, Protocol

from gymlab.campaigns.benchmark_table.record import NAME, RunRecord, known_record, make_record, write_record
from gymlab.campaigns.benchmark_table.seeded_recipe import SeededRecipe, fresh_seed
from gymlab.runs import platform
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths
from gymlab.runs.status import read_status

Phase = Literal["train", "resume", "wait", "score"]
_POLL_SECONDS = 0.2
_TOLD_CHARACTERS = 2000


class Job(NamedTuple):
    """A run to bring to its end and to score; without a trial it is one of the user's, only scored."""

    paths: RunPaths
    trial: SeededRecipe | None
    episodes: int
    group: str = "results"

    @property
    def title(self) -> str:
        if self.trial is None:
            return self.paths.run_id
        return " ".join([self.trial.recipe.name, *self.trial.overrides, f"seed {self.trial.seed}"])


class Outcome(NamedTuple):
    """A job done: a record, or why there is none."""

    job: Job
    record: RunRecord | None
    error: str = ""


class Watch(Protocol):
    """Who is told how it goes."""

    def began(self, job: Job, phase: Phase) -> None: ...
    def ended(self, outcome: Outcome) -> None: ...
    def ticked(self, active: Sequence[Job], waiting: Sequence[Job]) -> None: ...


@dataclass
class _Slot:
    """A place for one process at a time."""

    job: Job | None = None
    phase: Phase = "train"
    process: subprocess.Popen[bytes] | None = None
    output: IO[bytes] | None = None


@dataclass
class _Crew:
    """All places and what is left to do."""

    slots: list[_Slot]
    waiting: list[Job]
    watch: Watch
    done: list[Outcome] = field(default_factory=list)
    stopping: bool = False

    def stop(self) -> None:
        """No new process; those there are write a checkpoint and end."""
        self.stopping = True
        for slot in self.slots:
            if slot.process is not None and slot.process.poll() is None:
                slot.process.terminate()


class Interrupted(Exception):
    """A signal came; what was done until then is in `done`, and the same command goes on."""

    def __init__(self, done: list[Outcome], number: int) -> None:
        super().__init__("interrupted")
        self.done = done
        self.exit_code = 128 + number


def perform(jobs: Sequence[Job], *, width: int, watch: Watch) -> list[Outcome]:
    """Bring all jobs to their end, `width` at a time; one that fails does not stop the others."""
    crew = _Crew([_Slot() for _ in range(min(width, max(len(jobs), 1)))], list(jobs), watch)
    with _signals(crew) as received:
        while crew.waiting or any(slot.job is not None for slot in crew.slots):
            for slot in crew.slots:
                _advance(crew, slot)
            if crew.stopping and all(slot.job is None for slot in crew.slots):
                break
            watch.ticked([slot.job for slot in crew.slots if slot.job is not None], crew.waiting)
            time.sleep(_POLL_SECONDS)
    if received:
        raise Interrupted(crew.done, received[0])
    return crew.done


def phase_of(job: Job) -> Phase | None:
    """What a job needs next; None where its record is there."""
    if not job.paths.exists:
        return "train"
    status = read_status(job.paths).get("status")
    if status == "running":
        return "wait"
    if job.trial is not None and status != "finished":
        return "resume"
    return None if known_record(job.paths, job.episodes) is not None else "score"


def _advance(crew: _Crew, slot: _Slot) -> None:
    """One step of one place: look whether its process has ended, and give it the next thing to do."""
    if slot.job is not None and slot.process is not None:
        code = slot.process.poll()
        if code is None:
            return
        said = _said(slot)
        slot.process = None
        if code != 0 or (slot.phase == "score" and not _scored(slot.job, said)):
            interrupted = crew.stopping and code in (130, 143, -signal.SIGTERM)
            _end(crew, slot, None if interrupted else Outcome(slot.job, None, said[-_TOLD_CHARACTERS:].strip()))
            return
    if slot.job is None:
        if crew.stopping or not crew.waiting:
            return
        slot.job = crew.waiting.pop(0)
    phase = phase_of(slot.job)
    if phase is None:
        _end(crew, slot, Outcome(slot.job, known_record(slot.job.paths, slot.job.episodes)))
    elif crew.stopping:
        _end(crew, slot, None)
    elif phase == "wait":
        if slot.phase != "wait":
            crew.watch.began(slot.job, "wait")
        slot.phase = "wait"
    else:
        slot.phase = phase
        crew.watch.began(slot.job, phase)
        _start(slot, slot.job, phase)


def _end(crew: _Crew, slot: _Slot, outcome: Outcome | None) -> None:
    slot.job = None
    slot.phase = "train"
    if outcome is not None:
        crew.done.append(outcome)
        crew.watch.ended(outcome)


def _start(slot: _Slot, job: Job, phase: Phase) -> None:
    slot.output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is read
    environment = {"GYMLAB_VIDEO": "off", **os.environ}
    # -P: what lies in the current folder must not shadow what gymlab imports; it finds user modules by itself.
    # A session of its own: a key pressed at the terminal is for us, and we pass on what it means.
    slot.process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gymlab", *_words(job, phase)],
        stdin=subprocess.DEVNULL,
        stdout=slot.output,
        stderr=subprocess.STDOUT,
        env=environment,
        start_new_session=True,
    )


def _words(job: Job, phase: Phase) -> list[str]:
    run = str(job.paths.root.resolve())
    if phase == "score":
        seed = fresh_seed(int(read_manifest(job.paths).get("seed", 0)))
        return ["eval", f"{run}/best", "--episodes", str(job.episodes), "--seed", str(seed), "--json"]
    if phase == "resume":
        return ["resume", run, "-q"]
    assert job.trial is not None
    return ["train", *job.trial.train_arguments(), "--run-id", job.paths.run_id, "--group", job.group, "-q"]


def _scored(job: Job, said: str) -> bool:
    try:
        found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        write_record(job.paths.root / NAME, make_record(job.paths, job.trial, found))
    except (ValueError, KeyError, IndexError, TypeError):
        return False
    return True


def _said(slot: _Slot) -> str:
    assert slot.output is not None
    slot.output.seek(0)
    text = slot.output.read().decode(errors="replace")
    slot.output.close()
    return text


@contextmanager
def _signals(crew: _Crew) -> Iterator[list[int]]:
    """SIGINT and SIGTERM are passed on to the trainings, which end cleanly."""
    received: list[int] = []

    def handle(number: int, _frame: Any) -> None:
        received.append(number)
        crew.stop()

    ours = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, platform.TERMINATE) if ours}
    try:
        yield received
    except BaseException:
        crew.stop()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
