"""Status of a run: queued, starting, running or ended."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from gymlab.campaigns.queue.jobs import Job
from gymlab.core.errors import RunError, UserError
from gymlab.mcp.answers import StatusAnswer
from gymlab.mcp.config import ServerConfig
from gymlab.recipes.keys import read_settings
from gymlab.reports.run_facts import Facts, read_facts
from gymlab.runs.metrics_reader import CurveReader
from gymlab.runs.paths import RunPaths, valid_run_id

_QUEUED = {"waiting": "queued", "running": "starting", "done": "finished"}


def read_run_facts(
    paths: RunPaths, metrics: list[str] | None = None, axis: str = "env_steps", points: int = 400
) -> Facts:
    """Facts of a run's folder, with curves of `metrics`."""
    return read_facts(paths, read_settings(paths.inside(paths.recipe)), metrics=metrics, axis=axis, points=points)


def find_run_and_job(config: ServerConfig, name: str) -> tuple[RunPaths | None, Job | None]:
    """A run and its job: a queued run has no folder yet, a run started outside the queue has no job."""
    queue = config.queue
    if valid_run_id(name) and not RunPaths(config.root / name).exists:
        job = queue.find_by_run(name)
        if job is not None:
            return None, job
    try:
        paths = config.run(name)
    except UserError:
        jobs = queue.jobs()
        waiting = [job for job in jobs if job.open and job.run_id and job.run_id.startswith(name)]
        waiting = waiting or [job for job in jobs if job.id == name and job.run_id is None]  # a sweep, a task
        if len(waiting) == 1:
            return None, waiting[0]
        raise
    return paths, queue.find_by_run(paths.run_id)


def run_status(config: ServerConfig, name: str) -> StatusAnswer:
    """Status by name, from the run's folder and its job."""
    paths, job = find_run_and_job(config, name)
    if paths is None:
        assert job is not None
        return _queued_status(config, job)
    facts = read_run_facts(paths, [])
    done = facts.clock.get("env_steps")
    budget = facts.budget
    last = last_row(paths)
    steps = int(last.get("env_steps", done or 0)) if facts.status["status"] == "running" else done
    status = str(facts.status["status"])
    return StatusAnswer(
        run_id=paths.run_id,
        # While a resume is queued or starting, the folder still holds the status of the last session.
        status=_QUEUED[job.state] if job and job.open and status != "running" else status,
        stop_reason=facts.status.get("stop_reason"),
        progress=round(min(1.0, steps / budget), 4) if steps and budget else None,
        env_steps=steps,
        budget=budget,
        seconds=number(facts.clock.get("seconds")),
        return_mean=number(last.get("roll/return_mean")),
        score=number(facts.summary.get("score")),
        peak=number(facts.summary.get("peak")),
        solved=facts.summary.get("solved") if isinstance(facts.summary.get("solved"), bool) else None,
        solved_at=facts.solved_at,
        alerts=active_alerts(paths),
        job=job.id if job else None,
        message=(job.message or None) if job else None,
    )


def last_row(paths: RunPaths) -> dict[str, float]:
    """The newest metrics; {} before the first row."""
    with contextlib.suppress(RunError, OSError), CurveReader(paths.metrics) as reader:
        return dict(reader.last())
    return {}


def active_alerts(paths: RunPaths) -> list[str]:
    """The ids in `alerts.json`, which is written at checkpoints and at the end."""
    from gymlab.runs.status import read_record

    found = read_record(paths.inside(paths.alerts)).get("alerts")
    known = [alert for alert in found if isinstance(alert, dict)] if isinstance(found, list) else []
    return [str(alert.get("id")) for alert in known if alert.get("active")]


def number(value: Any, digits: int = 6) -> float | None:
    """A finite number, rounded to significant digits; None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.{digits}g}")


def _queued_status(config: ServerConfig, job: Job) -> StatusAnswer:
    waiting = [other.id for other in config.queue.jobs() if other.state == "waiting"]
    return StatusAnswer(
        run_id=job.run_id or "",
        status="running" if job.state == "running" and job.run_id is None else _QUEUED.get(job.state, job.state),
        job=job.id,
        before=waiting.index(job.id) if job.id in waiting else None,
        message=job.message or None,
        budget=job.steps or None,
    )
