"""From a command line to jobs: `train --queue`, `resume --queue`, and what they print."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from gymlab.cli.options import print_json
from gymlab.cli.targets import Sought, group_named, newest_interrupted
from gymlab.core.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from gymlab.campaigns.queue.jobs import Job, JobRequest
    from gymlab.runs.paths import RunPaths


@dataclass(frozen=True)
class Order:
    """A training as it is asked for."""

    sought: Sought
    seeds: Sequence[int] = (0,)
    run_id: str | None = None
    group: str | None = None
    key: str | None = None
    options: tuple[str, ...] = ()  # further options of `train`, as they are written


def train_requests(root: Path, order: Order) -> list[JobRequest]:
    """One job per seed; the recipe is checked here, so that a mistake is told at once and not at night."""
    from gymlab.campaigns.queue.jobs import JobRequest
    from gymlab.runs.paths import new_run_id, run_paths
    from gymlab.runs.redact import redact_argv

    recipe = order.sought.resolve().recipe
    steps = recipe.budget.count * (recipe.n_envs if recipe.budget.clock == "vec_steps" else 1)
    several = len(order.seeds) > 1
    changed = [*order.sought.overrides, *order.sought.sets]
    base = order.run_id or (order.group if several and order.group else new_run_id(recipe.name))
    requests = []
    for seed in order.seeds:
        run_id = f"{base}-s{seed}" if several else base
        if run_paths(root, run_id).root.exists() and order.key is None:
            raise UserError(f"run id '{run_id}' exists already: choose another")
        group = ("--group", order.group or base) if several or order.group else ()
        words = (*_recipe_words(order.sought), "--seed", str(seed), *group, *order.options)
        requests.append(
            JobRequest(
                title=" ".join(["train", recipe.name, *redact_argv(changed), f"seed {seed}"]),
                command=("train", *words),
                cwd=os.getcwd(),
                hidden=("--run-id", run_id),
                run_id=run_id,
                fresh=True,
                steps=steps,
                key=f"{order.key}/s{seed}" if order.key and several else order.key,
            )
        )
    return requests


def resume_request(
    paths: RunPaths, which: str, words: Sequence[str], run_id: str | None, key: str | None
) -> JobRequest:
    """Going on with a run, or with a fork of it where an earlier checkpoint is named."""
    from gymlab.campaigns.queue.jobs import JobRequest
    from gymlab.recipes.keys import read_settings
    from gymlab.reports.run_facts import read_facts
    from gymlab.runs.checkpoints import read_index
    from gymlab.runs.manifest import read_manifest
    from gymlab.runs.paths import new_run_id
    from gymlab.runs.redact import redact_argv

    forks = which not in ("last", read_index(paths)["last"])
    target = (run_id or new_run_id(str(read_manifest(paths).get("recipe")))) if forks else paths.run_id
    steps = read_facts(paths, read_settings(paths.inside(paths.recipe)), metrics=[]).budget
    named = f"{paths.run_id}/{which}" if forks else paths.run_id
    return JobRequest(
        title=" ".join(["resume", named, *redact_argv(words)]),
        command=("resume", named, *words),
        cwd=os.getcwd(),
        hidden=("--run-id", target) if forks else (),
        run_id=target,
        fresh=forks,
        steps=steps or 0,
        key=key,
    )


def put_in(root: Path, requests: Iterable[JobRequest], *, json: bool) -> list[Job]:
    """Add jobs, see to it that somebody works, and say what was done."""
    from gymlab.campaigns.queue.runner import ensure_runner
    from gymlab.campaigns.queue.store import Queue

    queue = Queue(root)
    jobs = queue.add(*requests)
    ensure_runner(queue)
    if json:
        waiting = [job.id for job in queue.jobs() if job.state == "waiting"]
        print_json({"jobs": [_told(job, waiting) for job in jobs]})
        return jobs
    for job in jobs:
        typer.echo(f"job {job.id}: {job.title}" + (f" ({job.run_id})" if job.run_id else ""))
    typer.echo("next: gymlab queue wait")
    return jobs


def seeds_of(seed: int, seeds: str | None) -> list[int]:
    """The seeds of `--seed` and `--seeds`."""
    if seeds is None:
        return [seed]
    from gymlab.cli.many import parse_seeds

    return parse_seeds(seeds, seed)


def written(*options: tuple[str, Any]) -> tuple[str, ...]:
    """Options as they are typed: those that were given."""
    words: list[str] = []
    for name, value in options:
        for one in value if isinstance(value, list) else [value]:
            if one is True or (one and name == "--wandb") or one == "":
                words.append(name if one is True else f"{name}={one}")
            elif one:
                words += [name, str(one)] if name else [str(one)]
    return tuple(words)


def queue_new(order: Order, *, json: bool) -> None:
    """`train --queue`."""
    from gymlab.recipes.project_settings import runs_folder

    put_in(runs_folder(), train_requests(runs_folder(), order), json=json)


def queue_again(run: str | None, words: tuple[str, ...], run_id: str | None, key: str | None, *, json: bool) -> None:
    """`resume --queue`."""
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_checkpoint

    named = run or newest_interrupted()
    if named is None:
        return
    if group_named(named) is not None:
        raise UserError(f"--queue: '{named}' is a group: queue its runs, or `gymlab resume {named}`")
    paths, which = select_checkpoint(named, runs_folder(), default="last")
    put_in(runs_folder(), [resume_request(paths, which, words, run_id, key)], json=json)


def _told(job: Job, waiting: list[str]) -> dict[str, Any]:
    place = waiting.index(job.id) if job.id in waiting else None
    return {"job": job.id, "run_id": job.run_id, "state": job.state, "title": job.title, "before": place}


def _recipe_words(sought: Sought) -> list[str]:
    words = [sought.reference, *sought.overrides]
    for name, values in (("--set", sought.sets), ("--import", sought.imports)):
        words += [word for value in values for word in (name, value)]
    for name, value in (("--budget", sought.budget), ("--engine", sought.engine), ("--device", sought.device)):
        words += [name, value] if value is not None else []
    return words
