"""Queue on disk (`runs/.queue/`). Writers hold a lock and replace the file atomically; readers need no lock."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, cast

from gymlab.campaigns.queue.jobs import Job, JobRecord, JobRequest, LimitsRecord, QueueLimits
from gymlab.campaigns.run_spec import RunState, read_run_state
from gymlab.core.errors import FormatError, RunError, UserError, suggestion
from gymlab.runs import files, platform
from gymlab.runs.locks import Owner, lock_holder, waiting_lock
from gymlab.runs.paths import RunPaths, prepare_runs_folder
from gymlab.runs.status import now, read_record

FOLDER = ".queue"
FORMAT = 2
MOST_WAITING = 10_000
_MOST_ENDED = 500  # jobs that have ended


@dataclass
class QueueContents:
    """The file's contents, in memory."""

    limits: QueueLimits
    next_number: int = 1  # the next job's number
    jobs: list[Job] = field(default_factory=list)  # in the order they were added

    def put(self, job: Job) -> Job:
        self.jobs = [job if job.id == other.id else other for other in self.jobs]
        return job


class Queue:
    """The jobs of a runs folder."""

    def __init__(self, runs_root: Path) -> None:
        self.root = runs_root.absolute()
        self.folder = self.root / FOLDER
        self.path = self.folder / "queue.json"

    @property
    def runner_lock(self) -> Path:
        return self.folder / "runner.lock"

    @property
    def runner_log(self) -> Path:
        return self.folder / "runner.log"

    @property
    def heartbeat(self) -> Path:
        return self.folder / "runner.json"

    @property
    def summary(self) -> Path:
        return self.folder / "summary.md"

    def lock_path(self, job_id: str) -> Path:
        """Locked by a job's process until it exits."""
        return self.folder / "jobs" / f"{job_id}.lock"

    def log_path(self, job_id: str) -> Path:
        """Output of a job's process."""
        return self.folder / "jobs" / f"{job_id}.log"

    def exit_path(self, job_id: str) -> Path:
        """Exit code, written by the job itself: its runner may have been killed by then."""
        return self.folder / "jobs" / f"{job_id}.end.json"

    def prompt_path(self, job_id: str) -> Path:
        return self.folder / "jobs" / f"{job_id}.prompt.md"

    def read(self) -> QueueContents:
        """The queue now; empty where there is no file."""
        try:
            data = cast("QueueRecord", files.read_json(self.path))
        except FileNotFoundError:
            return QueueContents(QueueLimits(platform.usable_cores()))
        written = data.get("format") if isinstance(data, dict) else None
        if written is not None and written != FORMAT:
            raise FormatError(f"{self.path} has format {written!r}, and this gymlab reads {FORMAT}: move it away")
        try:
            jobs = [Job.from_json(entry) for entry in data["jobs"]]
            return QueueContents(QueueLimits(**data["limits"]), int(data["next_number"]), jobs)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"{self.path} is damaged ({error}): move it away, the runs are not touched") from error

    def jobs(self) -> list[Job]:
        return self.read().jobs

    @contextlib.contextmanager
    def change(self) -> Iterator[QueueContents]:
        """The queue under its lock; written when the block ends without an error, and only where it differs."""
        if not self.folder.is_dir():
            prepare_runs_folder(self.root)
            self.folder.mkdir(mode=0o700, exist_ok=True)  # a command line may hold what others must not read
            (self.folder / "jobs").mkdir(exist_ok=True)
        with waiting_lock(self.folder / "queue.lock"):
            contents = self.read()
            before = _data(contents)
            yield contents
            after = _data(contents)
            if after != before or not self.path.exists():
                files.write_json(self.path, after)

    def add(self, *requests: JobRequest) -> list[Job]:
        """Append jobs. Of two with one key the second is not added: the first is returned."""
        added: list[Job] = []
        with self.change() as contents:
            if sum(job.state == "waiting" for job in contents.jobs) + len(requests) > MOST_WAITING:
                raise UserError(f"the queue holds at most {MOST_WAITING} waiting jobs")
            for request in requests:
                known = next((job for job in contents.jobs if request.key is not None and job.key == request.key), None)
                if known is None:
                    known = Job.from_request(request, str(contents.next_number), now())
                    contents.next_number += 1
                    contents.jobs.append(known)
                added.append(known)
            self._prune(contents)
        return added

    def find(self, name: str) -> Job:
        """A job by its number or its run; UserError where there is none."""
        jobs = self.jobs()
        for job in reversed(jobs):
            if name in (job.id, job.run_id):
                return job
        known = [name for job in jobs for name in (job.id, job.run_id) if name]
        hint = suggestion(name[:80], known) if known else "the queue is empty"
        raise UserError(f"no job {name[:80]!r} in the queue: {hint}")

    def find_by_run(self, run_id: str) -> Job | None:
        """The newest job of a run."""
        return next((job for job in reversed(self.jobs()) if job.run_id == run_id), None)

    def limit(self, jobs: int | None, steps: int | None) -> QueueLimits:
        """Change what may run at once; 0 steps means no limit on them."""
        with self.change() as contents:
            old = contents.limits
            contents.limits = QueueLimits(jobs or old.jobs, old.steps if steps is None else steps or None)
            return contents.limits

    def cancel(self, job_id: str) -> Job:
        """Remove a waiting job, or send SIGTERM to a running one."""
        with self.change() as contents:
            job = next(job for job in contents.jobs if job.id == job_id)
            if job.state == "waiting":
                return contents.put(replace(job, state="cancelled", cancelled=True, ended=now(), message="was waiting"))
            if job.state == "running":
                job = contents.put(replace(job, cancelled=True))
                if self.alive(job):
                    terminate_job(job)
        return job

    def alive(self, job: Job) -> bool:
        """Whether the process of a job runs: it holds a lock, so a reused pid or a killed runner do not matter."""
        try:
            fd = platform.open_read(self.lock_path(job.id))
        except OSError:
            return False
        try:
            return platform.is_locked(fd)
        finally:
            os.close(fd)

    def runner(self) -> Owner | None:
        """The runner's process, None where none runs."""
        return lock_holder(self.runner_lock)

    def run_state(self, job: Job) -> RunState | None:
        """The state of a job's run, None where it trains none."""
        return None if job.run_id is None else read_run_state(RunPaths(self.root / job.run_id))

    def exit_code(self, job: Job) -> int | None:
        """As the job wrote it in this attempt; None where it was killed."""
        record = read_record(self.exit_path(job.id))
        code = record.get("exit_code")
        return code if isinstance(code, int) and record.get("attempt") == job.attempts else None

    def _prune(self, contents: QueueContents) -> None:
        """Remove the oldest jobs that have ended."""
        ended = [job.id for job in contents.jobs if not job.open]
        for job_id in ended[: max(0, len(ended) - _MOST_ENDED)]:
            contents.jobs = [job for job in contents.jobs if job.id != job_id]
            for path in (
                self.lock_path(job_id),
                self.log_path(job_id),
                self.exit_path(job_id),
                self.prompt_path(job_id),
            ):
                path.unlink(missing_ok=True)


def terminate_job(job: Job) -> bool:
    """SIGTERM to a job's process: a training then writes a checkpoint and ends."""
    if job.pid is None:
        return False  # it is being started: the runner checks `cancelled` afterwards
    if job.start is not None:
        return platform.signal_process(job.pid, job.start, platform.TERMINATE)
    with contextlib.suppress(OSError):  # the system has no start times of processes
        os.kill(job.pid, platform.TERMINATE)
        return True
    return False


class QueueRecord(TypedDict):
    """`queue.json`."""

    format: int
    limits: LimitsRecord
    next_number: int
    jobs: list[JobRecord]


def _data(contents: QueueContents) -> QueueRecord:
    return {
        "format": FORMAT,
        "limits": {"jobs": contents.limits.jobs, "steps": contents.limits.steps},
        "next_number": contents.next_number,
        "jobs": [job.as_json() for job in contents.jobs],
    }
