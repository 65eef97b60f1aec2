"""Tools that start and read sweeps. A sweep is a job of the queue: when killed it resumes, and no trial is lost."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import Field

from gymlab.campaigns.queue.jobs import JobRequest
from gymlab.campaigns.queue.runner import ensure_runner
from gymlab.mcp.answers import SweepAnswer, SweepStartAnswer
from gymlab.mcp.arguments import Budget, Key, Limit, Overrides, Recipe
from gymlab.mcp.commands import gymlab_json
from gymlab.mcp.config import ServerConfig
from gymlab.mcp.tools_catalogue import resolved_recipe

_TRIAL_COLUMNS = ("trial", "state", "value", "overrides", "scores", "reason")
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$", description="The sweep's name.")]
Dimension = Annotated[
    str, Field(max_length=200, pattern=r"^[A-Za-z_][\w.]*=[\w.,:+-]+$", description="ppo.learning_rate=log:1e-5..1e-2")
]


def sweep_start(
    config: ServerConfig,
    name: Name,
    recipe: Recipe,
    space: Annotated[list[Dimension], Field(min_length=1, max_length=12)],
    overrides: Overrides = None,
    method: Literal["grid", "random", "tpe", "cma"] = "tpe",
    prune: Literal["none", "halving", "median"] = "none",
    trials: Annotated[int | None, Field(ge=1, le=1000)] = None,
    seeds: Annotated[str, Field(pattern=r"^[0-9.,]{1,100}$")] = "1",
    budget: Budget = None,
    key: Key = None,
) -> SweepStartAnswer:
    """Start a sweep in the background over KEY=1,2,3 or 0.1..0.9, log:1e-5..1e-2, int:1..5; runs are NAME-tT-sS."""
    resolved_recipe(config, recipe, overrides or [])
    arguments = [config.recipe(recipe), *config.overrides(overrides or [])]
    arguments += [f"--space={dimension}" for dimension in space]
    arguments += [f"--method={method}", f"--prune={prune}", f"--seeds={seeds}", f"--name={name}", "--quiet"]
    arguments += [f"--trials={trials}"] if trials is not None else []
    arguments += [f"--budget={budget}"] if budget else []
    request = JobRequest(f"sweep {name}: {recipe} over {' '.join(space)}", ("sweep", *arguments), os.getcwd(), key=key)
    (job,) = config.queue.add(request)
    ensure_runner(config.queue)
    return SweepStartAnswer(job=job.id, name=name, state=job.state, next=f"sweep_status(name='{name}')")


def sweep_status(config: ServerConfig, name: Name) -> SweepAnswer:
    """How far a sweep is, and its best trial so far."""
    return _sweep_answer(config, "status", name)


def sweep_results(config: ServerConfig, name: Name, limit: Limit = 20) -> SweepAnswer:
    """The trials of a sweep, the best first."""
    return _sweep_answer(config, "results", name, limit)


def _sweep_answer(config: ServerConfig, command: str, name: str, limit: int = 0) -> SweepAnswer:
    job = next((job for job in reversed(config.queue.jobs()) if f"--name={name}" in job.command), None)
    if job is not None and not (config.root / ".sweeps" / name).exists():
        return SweepAnswer(name=name, status=job.state, message=job.message or "it has not begun")
    known = gymlab_json(config, "sweep", command, name)
    rows = [{key: row.get(key) for key in _TRIAL_COLUMNS} for row in known.get("rows", ())]
    rows.sort(key=lambda row: (row["value"] is None, -(row["value"] or 0.0)))
    return SweepAnswer(
        name=name,
        status=known["status"],
        recipe=known["recipe"],
        method=known["method"],
        counts=known["trials"],
        best=known["best"],
        trials=rows[:limit] if limit else None,
        message=(job.message or None) if job is not None and job.state == "failed" else None,
    )
