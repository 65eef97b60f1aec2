"""How a run stands, whether it waits in the queue, trains or has ended."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from gymlab.campaigns.queue.jobs import Job
from gymlab.core.errors import RunError, UserError
from gymlab.mcp.answers import RunStatus
from gymlab.mcp.config import Lab
from gymlab.recipes.keys import read_settings
from gymlab.reports.run_facts import Facts, read_facts
from gymlab.runs.metrics_reader import CurveReader
from gymlab.runs.paths import RunPaths, valid_run_id

_QUEUED = {"waiting": "queued", "running": "starting", "done": "finished"}


def facts_of(paths: RunPaths, metrics: list[str] | None = None, axis: str = "env_steps", points: int = 400) -> Facts:
    """All that a run's folder says."""
    return read_facts(paths, read_settings(paths.inside(paths.recipe)), metrics=metrics, axis=axis, points=points)


def find(lab: Lab, name: str) -> tuple[RunPaths | None, Job | None]:
    """A run and its job: one that waits has no folder yet, one that was not queued has no job."""
    queue = lab.queue
    if valid_run_id(name) and not RunPaths(lab.root / name).exists:
        job = queue.of_run(name)
        if job is not None:
            return None, job
    try:
        paths = lab.run(name)
    except UserError:
        jobs = queue.jobs()
        waiting = [job for job in jobs if job.open and job.run_id and job.run_id.startswith(name)]
        waiting = waiting or [job for job in jobs if job.id == name and job.run_id is None]  # a sweep, a task
        if len(waiting) == 1:
            return None, waiting[0]
        raise
    return paths, queue.of_run(paths.run_id)


def standing(lab: Lab, name: str) -> RunStatus:
    """The status of a run."""
    paths, job = find(lab, name)
    if paths is None:
        assert job is not None
        return _queued(lab, job)
    facts = facts_of(paths, [])
    done = facts.clock.get("env_steps")
    budget = facts.budget
    last = last_row(paths)
    steps = int(last.get("env_steps", done or 0)) if facts.status["status"] == "running" else done
    status = str(facts.status["status"])
    return RunStatus(
        run_id=paths.run_id,
        # What it says of itself is of its last session while the next one waits or starts.
        status=_QUEUED[job.state] if job and job.open and status != "running" else status,
        stop_reason=facts.status.get("stop_reason"),
        progress=round(min(1.0, steps / budget), 4) if steps and budget else None,
        env_steps=steps,
        budget=budget,
        seconds=number(facts.clock.get("seconds")),
        return_mean=number(last.get("roll/return_mean")),
        best_return=number(facts.summary.get("best_return")),
        solved=facts.summary.get("solved") if isinstance(facts.summary.get("solved"), bool) else None,
        solved_at=facts.solved_at,
        alerts=active_alerts(paths),
        job=job.id if job else None,
        told=(job.told or None) if job else None,
    )


def last_row(paths: RunPaths) -> dict[str, float]:
    """The newest metrics; {} where nothing was measured yet."""
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
    """A finite number, brief."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.{digits}g}")


def _queued(lab: Lab, job: Job) -> RunStatus:
    waiting = [other.id for other in lab.queue.jobs() if other.state == "waiting"]
    return RunStatus(
        run_id=job.run_id or "",
        status="running" if job.state == "running" and job.run_id is None else _QUEUED.get(job.state, job.state),
        job=job.id,
        before=waiting.index(job.id) if job.id in waiting else None,
        told=job.told or None,
        budget=job.steps or None,
    )
