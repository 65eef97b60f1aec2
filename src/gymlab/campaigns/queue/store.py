"""`runs/.queue/`: the queue on disk. Writers take turns on a lock and replace the file whole; readers need no lock."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from gymlab.campaigns.queue.jobs import Job, Limits, Wish
from gymlab.core.errors import RunError, UserError, suggestion
from gymlab.runs import files, platform
from gymlab.runs.locks import Owner, lock_holder, waiting_lock
from gymlab.runs.paths import prepare_runs_folder
from gymlab.runs.status import now, read_record, read_status

FOLDER = ".queue"
FORMAT = 1
MOST_WAITING = 10_000
_KEPT = 500  # jobs that have ended


@dataclass
class Contents:
    """The file, open for a change."""

    limits: Limits
    following: int = 1  # the next job's number
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

    def lock_of(self, job_id: str) -> Path:
        """Held by a job's process as long as it lives."""
        return self.folder / "jobs" / f"{job_id}.lock"

    def log_of(self, job_id: str) -> Path:
        """What a job's process prints."""
        return self.folder / "jobs" / f"{job_id}.log"

    def end_of(self, job_id: str) -> Path:
        """The exit code, written by the job itself: its starter may be gone by then."""
        return self.folder / "jobs" / f"{job_id}.end.json"

    def prompt_of(self, job_id: str) -> Path:
        return self.folder / "jobs" / f"{job_id}.prompt.md"

    def read(self) -> Contents:
        """The queue as it stands; empty where there is none."""
        try:
            data = files.read_json(self.path)
        except FileNotFoundError:
            return Contents(Limits(platform.usable_cores()))
        try:
            jobs = [Job.from_json(entry) for entry in data["jobs"]]
            return Contents(Limits(**data["limits"]), int(data["following"]), jobs)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(f"{self.path} is damaged ({error}): move it away, the runs are not touched") from error

    def jobs(self) -> list[Job]:
        return self.read().jobs

    @contextlib.contextmanager
    def change(self) -> Iterator[Contents]:
        """The queue to be changed by nobody else; written when the block ends well, and only where it differs."""
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

    def add(self, *wishes: Wish) -> list[Job]:
        """Put jobs at the end. Of two with one key the second is not put in: the first is given back."""
        found: list[Job] = []
        with self.change() as contents:
            if sum(job.state == "waiting" for job in contents.jobs) + len(wishes) > MOST_WAITING:
                raise UserError(f"the queue holds at most {MOST_WAITING} waiting jobs")
            for wish in wishes:
                known = next((job for job in contents.jobs if wish.key is not None and job.key == wish.key), None)
                if known is None:
                    known = Job.of(wish, str(contents.following), now())
                    contents.following += 1
                    contents.jobs.append(known)
                found.append(known)
            self._prune(contents)
        return found

    def find(self, name: str) -> Job:
        """A job by its number or its run; UserError where there is none."""
        jobs = self.jobs()
        for job in reversed(jobs):
            if name in (job.id, job.run_id):
                return job
        known = [name for job in jobs for name in (job.id, job.run_id) if name]
        told = suggestion(name[:80], known) if known else "the queue is empty"
        raise UserError(f"no job {name[:80]!r} in the queue: {told}")

    def of_run(self, run_id: str) -> Job | None:
        """The newest job of a run."""
        return next((job for job in reversed(self.jobs()) if job.run_id == run_id), None)

    def limit(self, jobs: int | None, steps: int | None) -> Limits:
        """Change what may run at once; 0 steps means no limit on them."""
        with self.change() as contents:
            old = contents.limits
            contents.limits = Limits(jobs or old.jobs, old.steps if steps is None else steps or None)
            return contents.limits

    def cancel(self, job_id: str) -> Job:
        """Take a waiting job out, or ask a running one to stop."""
        with self.change() as contents:
            job = next(job for job in contents.jobs if job.id == job_id)
            if job.state == "waiting":
                return contents.put(replace(job, state="cancelled", cancelled=True, ended=now(), told="was waiting"))
            if job.state == "running":
                job = contents.put(replace(job, cancelled=True))
                if self.alive(job):
                    ask_to_end(job)
        return job

    def alive(self, job: Job) -> bool:
        """Whether the process of a job lives: it holds a lock, so a reused pid or a killed runner do not matter."""
        try:
            fd = platform.open_read(self.lock_of(job.id))
        except OSError:
            return False
        try:
            return platform.is_locked(fd)
        finally:
            os.close(fd)

    def runner(self) -> Owner | None:
        """The process that works through the queue, None where there is none."""
        return lock_holder(self.runner_lock)

    def run_status(self, job: Job) -> str | None:
        """What the run of a job says, None where it has none yet."""
        from gymlab.runs.paths import RunPaths

        if job.run_id is None or not (paths := RunPaths(self.root / job.run_id)).exists:
            return None
        return str(read_status(paths)["status"])

    def exit_code(self, job: Job) -> int | None:
        """As the job wrote it down in this attempt; None where it was killed."""
        record = read_record(self.end_of(job.id))
        code = record.get("exit_code")
        return code if isinstance(code, int) and record.get("attempt") == job.attempts else None

    def _prune(self, contents: Contents) -> None:
        """Forget the oldest that have ended."""
        ended = [job.id for job in contents.jobs if not job.open]
        for job_id in ended[: max(0, len(ended) - _KEPT)]:
            contents.jobs = [job for job in contents.jobs if job.id != job_id]
            for path in (self.lock_of(job_id), self.log_of(job_id), self.end_of(job_id), self.prompt_of(job_id)):
                path.unlink(missing_ok=True)


def ask_to_end(job: Job) -> bool:
    """SIGTERM to a job's process: a training then writes a checkpoint and ends."""
    if job.pid is None:
        return False  # it is being started: who does so looks again
    if job.start is not None:
        return platform.signal_process(job.pid, job.start, platform.TERMINATE)
    with contextlib.suppress(OSError):  # a system that does not tell when a process began
        os.kill(job.pid, platform.TERMINATE)
        return True
    return False


def _data(contents: Contents) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "limits": asdict(contents.limits),
        "following": contents.following,
        "jobs": [{key: _plain(value) for key, value in job.as_json().items()} for job in contents.jobs],
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
