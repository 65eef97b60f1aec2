"""Table of jobs with the results of their runs, for people, and as facts for programs."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gymlab.campaigns.queue.jobs import Job
from gymlab.core.format import format_count, format_duration
from gymlab.reports.sections import columns, printable
from gymlab.runs.paths import RunPaths
from gymlab.runs.registry import summarize

_ORDER = ("done", "stopped", "failed", "cancelled", "running", "waiting")


def job_facts(root: Path, job: Job) -> dict[str, Any]:
    """A job for `--json`, with the result of its run."""
    known = {name: getattr(job, name) for name in ("id", "state", "title", "run_id", "attempts", "exit_code")}
    known |= {
        "message": job.message,
        "added": job.added,
        "started": job.started,
        "ended": job.ended,
        "steps": job.steps,
        "key": job.key,
    }
    run: dict[str, Any] | None = None
    if job.run_id is not None and (paths := RunPaths(root / job.run_id)).exists:
        entry = summarize(paths)
        run = {name: entry.get(name) for name in ("status", "env_steps", "score", "solved")}
    return {**known, "run": run}


def job_table(root: Path, jobs: Sequence[Job]) -> list[str]:
    """One line per job."""
    rows = [("job", "state", "what", "env_steps", "score", "solved", "time", "")]
    for job in jobs:
        run = job_facts(root, job)["run"] or {}
        steps = run.get("env_steps")
        best = run.get("score")
        rows.append(
            (
                job.id,
                job.state,
                printable(job.title),
                "-" if steps is None else format_count(steps),
                f"{best:.6g}" if isinstance(best, int | float) else "-",
                {True: "yes", False: "no"}.get(run.get("solved"), "-"),  # type: ignore[arg-type]
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
