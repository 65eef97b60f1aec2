"""Queue runner: the process that starts jobs in their order, within the limits, and exits when none is left.

Jobs are detached processes. They survive a runner that is killed, and the next one finds them by their locks.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from gymlab.campaigns.queue.jobs import Job, state_after_exit
from gymlab.campaigns.queue.store import Queue, QueueContents, terminate_job
from gymlab.core.errors import UserError
from gymlab.process.child import Child, gymlab_command
from gymlab.runs import files, platform
from gymlab.runs.locks import Owner, RunLock, RunLocked
from gymlab.runs.logs import open_append, strip_escapes
from gymlab.runs.status import now

DESCRIPTOR = "GYMLAB_QUEUE_LOCK"  # environment variable: the descriptor of a job's lock
PARENT = "GYMLAB_QUEUE_RUNNER"  # environment variable: the pid of the runner that started it
_POLL_SECONDS = 0.2
_HEARTBEAT_SECONDS = 5.0
_MESSAGE_LETTERS = 300
_started: dict[Path, int] = {}  # pids of runners that this process started, by runs folder


def ensure_runner(queue: Queue) -> None:
    """Start a runner in the background where none runs. Of two started at once the second exits at once."""
    if sys.platform == "win32":
        raise UserError("the queue needs Linux or macOS: train with --detach instead")
    if queue.runner() is not None or _starting(queue.root) or not any(job.open for job in queue.jobs()):
        return
    fd = open_append(queue.runner_log)
    try:
        child = Child(
            gymlab_command("queue", "run"),
            stdout=fd,
            stderr=fd,
            session="detached",
            environ={**os.environ, "GYMLAB_RUNS": str(queue.root)},
            folder=queue.root,
        )
        _started[queue.root] = child.pid
        child.release()
    finally:
        os.close(fd)


def _starting(root: Path) -> bool:
    """Whether a runner that this process started still runs: it takes a second until it holds its lock."""
    pid = _started.get(root)
    if pid is None:
        return False
    try:
        ended = os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        ended = True
    if ended:
        _started.pop(root, None)
    return not ended


class QueueRunner:
    """Runs the jobs of one queue."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._children: dict[str, Child] = {}
        self._seen: list[str] = []  # ids of the jobs that we started or that ended while we ran
        self._last_heartbeat = -_HEARTBEAT_SECONDS

    def run(self) -> list[str] | None:
        """Work until no job is left; the summary, or None where another runner has the queue already."""
        lock = RunLock(self.queue.runner_lock)
        with self.queue.change():  # makes the folder
            pass
        try:
            lock.acquire()
        except RunLocked:
            return None
        try:
            while True:
                with self.queue.change() as contents:
                    self._step(contents)
                if self._release_if_done(lock):
                    break
                self._write_heartbeat()
                time.sleep(_POLL_SECONDS)
        finally:
            lock.release()
        return self._finish()

    def _release_if_done(self, lock: RunLock) -> bool:
        """Release the runner's lock where no job is left, while none can be added; a later one starts a runner."""
        if any(job.open for job in self.queue.jobs()):
            return False
        with self.queue.change() as contents:
            if any(job.open for job in contents.jobs):
                return False
            lock.release()
            return True

    def _step(self, contents: QueueContents) -> None:
        for job in [job for job in contents.jobs if job.state == "running"]:
            if not self._runs(job):
                self._log(contents.put(self._after_exit(job)))
        for job in [job for job in contents.jobs if job.state == "waiting"]:
            running = [other for other in contents.jobs if other.state == "running"]
            if not contents.limits.admits(job, running):
                break  # first in, first out: later jobs that would fit wait too
            self._log(contents.put(self._start(job)))

    def _runs(self, job: Job) -> bool:
        child = self._children.get(job.id)
        if child is not None and child.poll() is None:
            return True
        return self.queue.alive(job)  # started by an earlier runner, or its program still runs

    def _after_exit(self, job: Job) -> Job:
        child = self._children.pop(job.id, None)
        code = child.exit_code if child is not None else None
        if code is None or code < 0:
            code = self.queue.exit_code(job)
        state, message = state_after_exit(job, code, self.queue.run_state(job))
        if state == "failed":
            message = f"{message}: {self._last_lines(job)}".removesuffix(": ")
        ended = None if state == "waiting" else now()
        return replace(job, state=state, message=message, exit_code=code, ended=ended, pid=None, start=None)

    def _start(self, job: Job) -> Job:
        started = replace(job, state="running", attempts=job.attempts + 1, started=job.started or now(), message="")
        try:
            child = start_process(self.queue, started)
        except OSError as error:
            return replace(
                started, state="failed", ended=now(), message=f"cannot be started: {error.strerror or error}"
            )
        self._children[job.id] = child
        started = replace(started, pid=child.pid, start=platform.process_start(child.pid))
        if started.cancelled:
            terminate_job(started)
        return started

    def _last_lines(self, job: Job) -> str:
        with contextlib.suppress(OSError):
            text = strip_escapes(files.read_bytes(self.queue.log_path(job.id)).decode(errors="replace"))
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            return " / ".join(lines[-3:])[-_MESSAGE_LETTERS:]
        return ""

    def _log(self, job: Job) -> None:
        if job.id not in self._seen:
            self._seen.append(job.id)
        message = f" ({job.message})" if job.message else ""
        print(f"{now()[:19]} job {job.id} {job.state}: {strip_escapes(job.title)}{strip_escapes(message)}", flush=True)

    def _write_heartbeat(self) -> None:
        tick = time.monotonic()
        if tick - self._last_heartbeat < _HEARTBEAT_SECONDS:
            return
        self._last_heartbeat = tick
        owner = Owner.me()
        heartbeat = {"pid": owner.pid, "host": owner.host, "heartbeat": now(), "working_on": list(self._children)}
        files.write_json(self.queue.heartbeat, heartbeat, durable=False)

    def _finish(self) -> list[str]:
        from gymlab.campaigns.queue.job_table import summarize_jobs

        done = [job for job in self.queue.jobs() if job.id in self._seen]
        lines = summarize_jobs(self.queue.root, done)
        if done:  # else another runner has written it
            files.write_text(self.queue.summary, "\n".join(["# The queue is done", "", *lines]) + "\n")
        self.queue.heartbeat.unlink(missing_ok=True)
        return lines


def start_process(queue: Queue, job: Job) -> Child:
    """Start a job as a detached process, which inherits the job's lock and holds it until it exits."""
    lock = platform.open_lock(queue.lock_path(job.id))
    try:
        platform.wait_lock(lock)  # returns at once: readers hold it for microseconds
        log = open_append(queue.log_path(job.id))
        try:
            return Child(
                [sys.executable, "-P", "-m", "gymlab.campaigns.queue.job_process", str(queue.root), job.id],
                folder=_folder(job),
                stdout=log,
                stderr=log,
                session="detached",
                pass_fds=(lock,),
                environ={**os.environ, "GYMLAB_RUNS": str(queue.root), DESCRIPTOR: str(lock), PARENT: str(os.getpid())},
            )
        finally:
            os.close(log)
    finally:
        os.close(lock)


def _folder(job: Job) -> str:
    if not Path(job.cwd).is_dir():
        raise OSError(2, f"its folder '{job.cwd}' does not exist")
    return job.cwd
