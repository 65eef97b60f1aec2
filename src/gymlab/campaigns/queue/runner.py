"""The process that works through the queue: it starts jobs as their turn comes, and ends when nothing is left.

Jobs are processes of their own. They outlive a runner that is killed, and the next one finds them by their locks.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from gymlab.campaigns.queue.jobs import Job, verdict
from gymlab.campaigns.queue.store import Contents, Queue, ask_to_end
from gymlab.core.errors import UserError
from gymlab.runs import files, platform
from gymlab.runs.locks import Owner, RunLock, RunLocked
from gymlab.runs.logs import open_append, strip_escapes
from gymlab.runs.status import now

DESCRIPTOR = "GYMLAB_QUEUE_LOCK"  # tells a job's process which descriptor holds its lock
PARENT = "GYMLAB_QUEUE_RUNNER"  # and who has started it
_POLL_SECONDS = 0.2
_BEAT_SECONDS = 5.0
_TOLD_LETTERS = 300
_started: dict[Path, int] = {}  # runners of this process's own, by runs folder


def ensure_runner(queue: Queue) -> None:
    """See to it that somebody works through the queue. Two that come at once do no harm: the second ends at once."""
    if sys.platform == "win32":
        raise UserError("the queue needs Linux or macOS: train with --detach instead")
    if queue.runner() is not None or _starting(queue.root) or not any(job.open for job in queue.jobs()):
        return
    fd = open_append(queue.runner_log)
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "gymlab", "queue", "run"],
            stdin=subprocess.DEVNULL,
            stdout=fd,
            stderr=fd,
            start_new_session=True,
            env={**os.environ, "GYMLAB_RUNS": str(queue.root)},
            cwd=queue.root,
        )
        _started[queue.root] = child.pid
        child.returncode = 0  # it outlives us, and Popen need not warn of that
    finally:
        os.close(fd)


def _starting(root: Path) -> bool:
    """Whether the runner that this process has started still lives: it takes a second until it has its lock."""
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


class Runner:
    """Works through one queue."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._seen: list[str] = []  # ids of the jobs that ended while we ran, or were running when we came
        self._last_beat = -_BEAT_SECONDS

    def run(self) -> list[str] | None:
        """Work until nothing is left; the summary, or None where another runner is at it already."""
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
                if self._ended(lock):
                    break
                self._beat()
                time.sleep(_POLL_SECONDS)
        finally:
            lock.release()
        return self._finish()

    def _ended(self, lock: RunLock) -> bool:
        """Let go where nothing is left; nobody adds a job meanwhile, and whoever does after it finds no runner."""
        if any(job.open for job in self.queue.jobs()):
            return False
        with self.queue.change() as contents:
            if any(job.open for job in contents.jobs):
                return False
            lock.release()
            return True

    def _step(self, contents: Contents) -> None:
        for job in [job for job in contents.jobs if job.state == "running"]:
            if not self._lives(job):
                self._note(contents.put(self._judge(job)))
        for job in [job for job in contents.jobs if job.state == "waiting"]:
            running = [other for other in contents.jobs if other.state == "running"]
            if not contents.limits.admits(job, running):
                break  # nobody overtakes
            self._note(contents.put(self._start(job)))

    def _lives(self, job: Job) -> bool:
        child = self._children.get(job.id)
        if child is not None and child.poll() is None:
            return True
        return self.queue.alive(job)  # adopted, or its program still runs

    def _judge(self, job: Job) -> Job:
        child = self._children.pop(job.id, None)
        code = child.returncode if child is not None else None
        if code is None or code < 0:
            code = self.queue.exit_code(job)
        state, told = verdict(job, code, self.queue.run_status(job))
        if state == "failed":
            told = f"{told}: {self._last_words(job)}".removesuffix(": ")
        ended = None if state == "waiting" else now()
        return replace(job, state=state, told=told, exit_code=code, ended=ended, pid=None, start=None)

    def _start(self, job: Job) -> Job:
        begun = replace(job, state="running", attempts=job.attempts + 1, started=job.started or now(), told="")
        try:
            child = start_process(self.queue, begun)
        except OSError as error:
            return replace(begun, state="failed", ended=now(), told=f"cannot be started: {error.strerror or error}")
        self._children[job.id] = child
        begun = replace(begun, pid=child.pid, start=platform.process_start(child.pid))
        if begun.cancelled:
            ask_to_end(begun)
        return begun

    def _last_words(self, job: Job) -> str:
        with contextlib.suppress(OSError):
            text = strip_escapes(files.read_bytes(self.queue.log_of(job.id)).decode(errors="replace"))
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            return " / ".join(lines[-3:])[-_TOLD_LETTERS:]
        return ""

    def _note(self, job: Job) -> None:
        if job.id not in self._seen:
            self._seen.append(job.id)
        again = f" ({job.told})" if job.told else ""
        print(f"{now()[:19]} job {job.id} {job.state}: {strip_escapes(job.title)}{strip_escapes(again)}", flush=True)

    def _beat(self) -> None:
        tick = time.monotonic()
        if tick - self._last_beat < _BEAT_SECONDS:
            return
        self._last_beat = tick
        owner = Owner.me()
        beat = {"pid": owner.pid, "host": owner.host, "heartbeat": now(), "working_on": list(self._children)}
        files.write_json(self.queue.heartbeat, beat, durable=False)

    def _finish(self) -> list[str]:
        from gymlab.campaigns.queue.summary import summary

        done = [job for job in self.queue.jobs() if job.id in self._seen]
        lines = summary(self.queue.root, done)
        if done:  # else another runner has summed up
            files.write_text(self.queue.summary, "\n".join(["# The queue is done", "", *lines]) + "\n")
        self.queue.heartbeat.unlink(missing_ok=True)
        return lines


def start_process(queue: Queue, job: Job) -> subprocess.Popen[bytes]:
    """A job as a process of its own that holds the job's lock from its first moment to its last."""
    lock = platform.open_lock(queue.lock_of(job.id))
    try:
        platform.wait_lock(lock)  # at once: who merely looks holds it for microseconds
        log = open_append(queue.log_of(job.id))
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "gymlab.campaigns.queue.job_process", str(queue.root), job.id],
                cwd=_folder(job),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(lock,),
                env={**os.environ, "GYMLAB_RUNS": str(queue.root), DESCRIPTOR: str(lock), PARENT: str(os.getpid())},
            )
        finally:
            os.close(log)
    finally:
        os.close(lock)


def _folder(job: Job) -> str:
    if not Path(job.cwd).is_dir():
        raise OSError(2, f"its folder '{job.cwd}' is gone")
    return job.cwd
