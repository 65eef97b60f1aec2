"""Process of one job: `python -m gymlab.campaigns.queue.job_process RUNS_FOLDER JOB`. Writes its exit code to disk."""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from gymlab.campaigns.queue.jobs import Job
from gymlab.campaigns.queue.runner import DESCRIPTOR, PARENT, ensure_runner
from gymlab.campaigns.queue.store import Queue
from gymlab.process.child import Child, gymlab_command
from gymlab.runs import files
from gymlab.runs.locks import lock_holder
from gymlab.runs.paths import RunPaths
from gymlab.runs.redact import redact_output

_BACKGROUND = "--in-background"  # of cli/detach.py: secrets are redacted, because the output is a file
_TIMED_OUT = 124  # as `timeout` has it
_END_SECONDS = 10.0  # for a program that is terminated
_POLL_SECONDS = 0.01


def main(runs_root: str, job_id: str) -> int:
    """Run the job; its exit code."""
    queue = Queue(Path(runs_root))
    job = _recorded_job(queue, job_id, int(os.environ.pop(PARENT)))
    lock = int(os.environ.pop(DESCRIPTOR))
    if job is None:
        os.close(lock)
        ensure_runner(queue)  # to which the job is still waiting
        return 1
    os.set_inheritable(lock, False)  # released when we exit, whatever we have started
    code = 1
    try:
        code = _program(queue, job, lock) if job.program else _gymlab(arguments(queue, job))
    finally:
        files.write_json(queue.exit_path(job_id), {"exit_code": code, "attempt": job.attempts})
        os.close(lock)
        ensure_runner(queue)  # the one that started us may have been killed
    return code


def _recorded_job(queue: Queue, job_id: str, runner: int) -> Job | None:
    """The job, once its runner has recorded our pid; None where the runner was killed before that."""
    while True:
        orphaned = os.getppid() != runner
        job = queue.find(job_id)
        if job.pid == os.getpid():
            return job
        if orphaned:
            return None
        time.sleep(_POLL_SECONDS)


def arguments(queue: Queue, job: Job) -> list[str]:
    """gymlab's arguments for this attempt: a run that an earlier one has made is resumed."""
    name, *rest = job.command
    if job.run_id is None:
        return [name, *rest]
    if job.fresh:
        paths = RunPaths(queue.root / job.run_id)
        if paths.exists:
            return ["resume", _BACKGROUND, "0", job.run_id]
        if paths.root.is_dir() and lock_holder(paths.lock) is None:
            shutil.rmtree(paths.root)  # killed before it became a run
    return [name, _BACKGROUND, str(len(job.hidden)), *job.hidden, *rest]


def _gymlab(argv: list[str]) -> int:
    sys.argv = ["gymlab", *argv]
    if _BACKGROUND not in argv:  # which redacts by itself
        redact_output(sys.argv)
    try:
        runpy.run_module("gymlab", run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    return 0


def _program(queue: Queue, job: Job, lock: int) -> int:
    """Run a program of the user's, without a shell. It inherits the job's lock, in case we are killed before it."""
    words = {"{runs}": str(queue.root)}
    if job.prompt:
        target = queue.prompt_path(job.id)
        with Child(gymlab_command(*job.prompt, "--output", str(target))) as prompt:
            if code := prompt.wait():
                return code
        words |= {"{prompt_file}": str(target), "{prompt}": target.read_text(encoding="utf-8")}
    try:
        child = Child([_filled(word, words) for word in job.command], pass_fds=(lock,))
    except OSError as error:
        print(f"cannot start {job.command[0]!r}: {error.strerror}", file=sys.stderr)
        return 127

    def pass_on(number: int, _frame: FrameType | None) -> None:
        child.signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    code = child.wait(None if job.minutes is None else 60 * job.minutes)
    if code is None:
        child.terminate()
        child.end(_END_SECONDS)
        print(f"stopped after {job.minutes:g} minutes", file=sys.stderr)
        return _TIMED_OUT
    return code if code >= 0 else 128 - code


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
