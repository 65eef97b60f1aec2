"""Table of jobs with the results of their runs, for people, and as facts for programs."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from gymlab.campaigns.queue.jobs import Job, JobState
from gymlab.core.format import format_count, format_duration
from gymlab.reports.sections import columns, printable, yes_or_no
from gymlab.runs.paths import RunPaths
from gymlab.runs.records import Status
from gymlab.runs.registry import summarize

_ORDER = ("done", "stopped", "failed", "cancelled", "running", "waiting")


class RunFacts(TypedDict, total=False):
    """The result of a job's run."""

    status: Status
    env_steps: int | None
    score: float | None
    solved: bool | None


class JobFacts(TypedDict):
    """A job for `--json`."""

    id: str
    state: JobState
    title: str
    run_id: str | None
    attempts: int
    exit_code: int | None
    message: str
    added: str
    started: str | None
    ended: str | None
    steps: int
    key: str | None
    run: RunFacts | None


def job_facts(root: Path, job: Job) -> JobFacts:
    """A job for `--json`, with the result of its run."""
    run: RunFacts | None = None
    if job.run_id is not None and (paths := RunPaths(root / job.run_id)).exists:
        entry = summarize(paths)
        run = {
            "status": entry["status"],
            "env_steps": entry["env_steps"],
            "score": entry["score"],
            "solved": entry["solved"],
        }
    return {
        "id": job.id,
        "state": job.state,
        "title": job.title,
        "run_id": job.run_id,
        "attempts": job.attempts,
        "exit_code": job.exit_code,
        "message": job.message,
        "added": job.added,
        "started": job.started,
        "ended": job.ended,
        "steps": job.steps,
        "key": job.key,
        "run": run,
    }


def job_table(root: Path, jobs: Sequence[Job]) -> list[str]:
    """One line per job."""
    rows = [("job", "state", "what", "env_steps", "score", "solved", "time", "")]
    for job in jobs:
        run: RunFacts = job_facts(root, job)["run"] or {}
        steps = run.get("env_steps")
        best = run.get("score")
        rows.append(
            (
                job.id,
                job.state,
                printable(job.title),
                "-" if steps is None else format_count(steps),
                f"{best:.6g}" if isinstance(best, int | float) else "-",
                yes_or_no(run.get("solved"), "-"),
                _duration(job),
                printable(job.message),
            )
        )
    return columns(rows, right=(3, 4))


def summarize_jobs(root: Path, jobs: Sequence[Job]) -> list[str]:
    """The number of jobs in each state, and the table."""
    count = Counter(job.state for job in jobs)
    counts = ", ".join(f"{count[state]} {state}" for state in _ORDER if count[state])  # type: ignore[index]
    restarted = sum(job.attempts > 1 for job in jobs)
    head = f"{len(jobs)} job{'s' * (len(jobs) != 1)}: {counts or 'nothing to do'}"
    head += f"; {restarted} restarted after being killed" if restarted else ""
    return [head, *(job_table(root, jobs) if jobs else [])]


def _duration(job: Job) -> str:
    if job.started is None or job.ended is None:
        return "-"
    seconds = _time(job.ended) - _time(job.started)
    return format_duration(max(seconds, 0.0))


def _time(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()
