"""A job's own process: `python -m gymlab.campaigns.queue.job_process RUNS_FOLDER JOB`. Writes down how it ended."""

from __future__ import annotations

import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gymlab.campaigns.queue.jobs import Job
from gymlab.campaigns.queue.runner import DESCRIPTOR, PARENT, ensure_runner
from gymlab.campaigns.queue.store import Queue
from gymlab.runs import files
from gymlab.runs.locks import lock_holder
from gymlab.runs.paths import RunPaths
from gymlab.runs.redact import redact_output

_BACKGROUND = "--in-background"  # as cli/detach.py has it: the output becomes a file, so it loses its secrets
_TIMED_OUT = 124
_NOTED_SECONDS = 0.01  # between looks at the queue


def main(runs_root: str, job_id: str) -> int:
    """Do the job; its exit code."""
    queue = Queue(Path(runs_root))
    job = _noted(queue, job_id, int(os.environ.pop(PARENT)))
    lock = int(os.environ.pop(DESCRIPTOR))
    if job is None:
        os.close(lock)
        ensure_runner(queue)  # for which it still waits
        return 1
    os.set_inheritable(lock, False)  # it ends with us, not with what we start
    code = 1
    try:
        code = _program(queue, job, lock) if job.program else _gymlab(arguments(queue, job))
    finally:
        files.write_json(queue.end_of(job_id), {"exit_code": code, "attempt": job.attempts})
        os.close(lock)
        ensure_runner(queue)  # the one that started us may have been killed
    return code


def _noted(queue: Queue, job_id: str, runner: int) -> Job | None:
    """The job, once its runner has written down that this process does it; None where it was killed before that."""
    while True:
        orphaned = os.getppid() != runner
        job = queue.find(job_id)
        if job.pid == os.getpid():
            return job
        if orphaned:
            return None
        time.sleep(_NOTED_SECONDS)


def arguments(queue: Queue, job: Job) -> list[str]:
    """gymlab's arguments for this attempt: a run that has begun before is gone on with."""
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


def _gymlab(given: list[str]) -> int:
    sys.argv = ["gymlab", *given]
    if _BACKGROUND not in given:  # which sees to it itself
        redact_output(sys.argv)
    try:
        runpy.run_module("gymlab", run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    return 0


def _program(queue: Queue, job: Job, lock: int) -> int:
    """A program of the user's, without a shell; it holds the job's lock too, should we be killed before it."""
    words = {"{runs}": str(queue.root)}
    if job.prompt:
        target = queue.prompt_of(job.id)
        asked = [sys.executable, "-P", "-m", "gymlab", *job.prompt, "--output", str(target)]
        if code := subprocess.run(asked, stdin=subprocess.DEVNULL, check=False).returncode:
            return code
        words |= {"{prompt_file}": str(target), "{prompt}": target.read_text(encoding="utf-8")}
    try:
        child = subprocess.Popen(
            [_filled(word, words) for word in job.command], stdin=subprocess.DEVNULL, pass_fds=(lock,)
        )
    except OSError as error:
        print(f"cannot start {job.command[0]!r}: {error.strerror}", file=sys.stderr)
        return 127

    def pass_on(number: int, _frame: Any) -> None:
        child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    try:
        code = child.wait(None if job.minutes is None else 60 * job.minutes)
    except subprocess.TimeoutExpired:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        print(f"stopped after {job.minutes:g} minutes", file=sys.stderr)
        return _TIMED_OUT
    return code if code >= 0 else 128 - code


def _filled(word: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
