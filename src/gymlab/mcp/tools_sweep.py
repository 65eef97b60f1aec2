"""Tools for sweeps, through the queue: a sweep that is killed goes on without losing or repeating a trial."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import Field

from gymlab.campaigns.queue.jobs import Wish
from gymlab.campaigns.queue.runner import ensure_runner
from gymlab.mcp.answers import Answer
from gymlab.mcp.arguments import Budget, Key, Limit, Overrides, Recipe
from gymlab.mcp.commands import gymlab_json
from gymlab.mcp.config import Lab
from gymlab.mcp.tools_catalogue import shown_recipe

_ROW = ("trial", "state", "value", "overrides", "scores", "reason")  # of a trial
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$", description="The sweep's name.")]
Dimension = Annotated[
    str, Field(max_length=200, pattern=r"^[A-Za-z_][\w.]*=[\w.,:+-]+$", description="ppo.learning_rate=log:1e-5..1e-2")
]


class SweepStarted(Answer):
    job: str
    name: str
    state: str
    next: str


class SweepShown(Answer):
    name: str
    status: str  # waiting, running, interrupted or finished
    recipe: str | None = None
    method: str | None = None
    counts: dict[str, int] = Field(default_factory=dict)  # trials by state
    best: dict[str, Any] | None = None  # trial, value, interval, overrides, runs
    trials: list[dict[str, Any]] | None = None  # best first
    told: str | None = None


def sweep_start(
    lab: Lab,
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
) -> SweepStarted:
    """Start a sweep in the background over KEY=1,2,3 or 0.1..0.9, log:1e-5..1e-2, int:1..5; runs are NAME-tT-sS."""
    shown_recipe(lab, recipe, overrides or [])
    words = [lab.recipe(recipe), *lab.overrides(overrides or [])]
    words += [f"--space={dimension}" for dimension in space]
    words += [f"--method={method}", f"--prune={prune}", f"--seeds={seeds}", f"--name={name}", "--quiet"]
    words += [f"--trials={trials}"] if trials is not None else []
    words += [f"--budget={budget}"] if budget else []
    wish = Wish(f"sweep {name}: {recipe} over {' '.join(space)}", ("sweep", *words), os.getcwd(), key=key)
    (job,) = lab.queue.add(wish)
    ensure_runner(lab.queue)
    return SweepStarted(job=job.id, name=name, state=job.state, next=f"sweep_status(name='{name}')")


def sweep_status(lab: Lab, name: Name) -> SweepShown:
    """How far a sweep is, and its best trial so far."""
    return _shown(lab, "status", name)


def sweep_results(lab: Lab, name: Name, limit: Limit = 20) -> SweepShown:
    """The trials of a sweep, the best first."""
    return _shown(lab, "results", name, limit)


def _shown(lab: Lab, command: str, name: str, limit: int = 0) -> SweepShown:
    job = next((job for job in reversed(lab.queue.jobs()) if f"--name={name}" in job.command), None)
    if job is not None and not (lab.root / ".sweeps" / name).exists():
        return SweepShown(name=name, status=job.state, told=job.told or "it has not begun")
    known = gymlab_json(lab, "sweep", command, name)
    rows = [{key: row.get(key) for key in _ROW} for row in known.get("rows", ())]
    rows.sort(key=lambda row: (row["value"] is None, -(row["value"] or 0.0)))
    return SweepShown(
        name=name,
        status=known["status"],
        recipe=known["recipe"],
        method=known["method"],
        counts=known["trials"],
        best=known["best"],
        trials=rows[:limit] if limit else None,
        told=(job.told or None) if job is not None and job.state == "failed" else None,
    )
