"""`gymlab queue`, and the --queue of `train` and `resume`: jobs that wait, run and have ended."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gymlab.cli.options import (
    TIMED_OUT,
    Json,
    LaunchOptions,
    NewRunOptions,
    ResumeOptions,
    Timeout,
    parse_env_steps,
    parse_seeds,
    print_json,
)
from gymlab.cli.targets import RecipeArguments, group_named, newest_interrupted
from gymlab.core.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

    from gymlab.campaigns.queue.jobs import Job, JobRequest
    from gymlab.campaigns.queue.store import Queue
    from gymlab.runs.paths import RunPaths

app = typer.Typer(help="List, wait for, cancel and limit what waits in the queue.")

_POLL_SECONDS = 0.2
_SHOWN = 20


@app.callback(invoke_without_command=True)
def queue(context: typer.Context, json: Json = False) -> None:
    """List, wait for, cancel and limit what waits in the queue.

    Example: gymlab queue
    """
    if context.invoked_subcommand is None:
        list_jobs(every=False, json=json)


@app.command("list")
def list_jobs(
    every: Annotated[bool, typer.Option("--all", help="Also all that has ended; default: the last 20.")] = False,
    json: Json = False,
) -> None:
    """List the jobs in the order they were put in.

    Example: gymlab queue list --json
    """
    from gymlab.campaigns.queue.job_table import job_facts, job_table

    store = _queue()
    contents = store.read()
    runner = store.runner()
    ended = [job for job in contents.jobs if not job.open]
    hidden = set() if every else {job.id for job in ended[: max(0, len(ended) - _SHOWN)]}
    jobs = [job for job in contents.jobs if job.id not in hidden]
    if json:
        limits = {"jobs": contents.limits.jobs, "steps": contents.limits.steps}
        known = [job_facts(store.root, job) for job in jobs]
        print_json({"jobs": known, "limits": limits, "runner": None if runner is None else runner.pid})
        return
    if not jobs:
        typer.echo("the queue is empty: gymlab train CartPole-v1 --queue")
        return
    typer.echo("\n".join(job_table(store.root, jobs)))
    if hidden:
        typer.echo(f"(and {len(hidden)} older: --all)")
    if any(job.open for job in jobs):
        typer.echo(f"worked on by {runner}" if runner else "no runner is alive: gymlab queue wait")


@app.command()
def wait(
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB ...]", help="Numbers or runs; default: all.")
    ] = None,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Wait until jobs have ended, and sum up. Exit code 1 where one failed, 124 not in time.

    Example: gymlab queue wait --timeout 3600
    """
    from gymlab.campaigns.queue.job_table import job_facts, summarize_jobs
    from gymlab.campaigns.queue.runner import ensure_runner

    store = _queue()
    waited = [store.find(name).id for name in jobs or ()] or [job.id for job in store.jobs() if job.open]
    deadline = None if timeout is None else time.monotonic() + timeout
    late = False
    while any(job.open for job in _jobs_by_id(store, waited)) and not late:
        ensure_runner(store)
        time.sleep(_POLL_SECONDS)
        late = deadline is not None and time.monotonic() > deadline
    found = _jobs_by_id(store, waited)
    if json:
        print_json({"jobs": [job_facts(store.root, job) for job in found]})
    else:
        typer.echo("\n".join(summarize_jobs(store.root, found)))
    if any(job.open for job in found):
        raise typer.Exit(TIMED_OUT)
    if any(job.state == "failed" for job in found):
        raise typer.Exit(1)


@app.command()
def cancel(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB ...]", help="Numbers or runs.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Everything that waits or runs.")] = False,
    json: Json = False,
) -> None:
    """Take jobs out of the queue; one that runs is asked to stop, a training with a checkpoint.

    Example: gymlab queue cancel 3
    """
    from gymlab.campaigns.queue.job_table import job_facts

    store = _queue()
    if not jobs and not every:
        raise UserError("which jobs? Name them, or --all")
    chosen = [job for job in store.jobs() if job.open] if every else [store.find(name) for name in jobs or ()]
    done = [store.cancel(job.id) for job in chosen]
    if json:
        print_json({"jobs": [job_facts(store.root, job) for job in done]})
        return
    for job in done:
        state = "is asked to stop" if job.state == "running" else job.state
        typer.echo(f"job {job.id}: {state}")
    if not done:
        typer.echo("nothing waits or runs")


@app.command()
def limits(
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", min=1, help="Jobs at once.")] = None,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="N", help="Env steps of all running jobs, e.g. 5M; 0: no limit.")
    ] = None,
    json: Json = False,
) -> None:
    """Show or set what may run at once; what does not fit waits. Default: as many jobs as there are cores.

    Example: gymlab queue limits --jobs 1
    """
    from gymlab.core.format import format_count

    most_steps = parse_env_steps("--steps", steps, least=0, hint=", or 0 for no limit")
    store = _queue()
    changed = jobs is not None or steps is not None
    now = store.limit(jobs, most_steps) if changed else store.read().limits
    if json:
        print_json({"jobs": now.jobs, "steps": now.steps})
    else:
        typer.echo(
            f"{now.jobs} jobs at once, {'any number of' if now.steps is None else format_count(now.steps)} env steps"
        )


@app.command()
def run() -> None:
    """Work through the queue here until it is empty, then sum up. Started by itself in the background when needed.

    Example: gymlab queue run
    """
    from gymlab.campaigns.queue.runner import QueueRunner

    summary = QueueRunner(_queue()).run()
    typer.echo("another process works through it: gymlab queue wait" if summary is None else "\n".join(summary))


def _queue() -> Queue:
    from gymlab.campaigns.queue.store import Queue
    from gymlab.recipes.project_settings import runs_folder

    return Queue(runs_folder())


def _jobs_by_id(store: Queue, ids: list[str]) -> list[Job]:
    return [job for job in store.jobs() if job.id in ids]


@dataclass(frozen=True)
class QueuedTraining:
    """A training to put into the queue, one job per seed."""

    target: RecipeArguments
    seeds: Sequence[int] = (0,)
    run_id: str | None = None
    group: str | None = None
    key: str | None = None
    options: tuple[str, ...] = ()  # further options of `train`, as typed


def train_requests(root: Path, training: QueuedTraining) -> list[JobRequest]:
    """One job per seed. The recipe is checked now, not when the job starts."""
    from gymlab.campaigns.queue.jobs import JobRequest
    from gymlab.runs.paths import new_run_id, run_paths
    from gymlab.runs.redact import redact_argv

    recipe = training.target.resolve().recipe
    several = len(training.seeds) > 1
    changed = [*training.target.overrides, *training.target.sets]
    base = training.run_id or (training.group if several and training.group else new_run_id(recipe.name))
    requests = []
    for seed in training.seeds:
        run_id = f"{base}-s{seed}" if several else base
        if run_paths(root, run_id).root.exists() and training.key is None:
            raise UserError(f"run id '{run_id}' exists already: choose another")
        group = ("--group", training.group or base) if several or training.group else ()
        arguments = (*training.target.arguments(), "--seed", str(seed), *group, *training.options)
        requests.append(
            JobRequest(
                title=" ".join(["train", recipe.name, *redact_argv(changed), f"seed {seed}"]),
                command=("train", *arguments),
                cwd=os.getcwd(),
                hidden=("--run-id", run_id),
                run_id=run_id,
                fresh=True,
                steps=recipe.budget_env_steps,
                key=f"{training.key}/s{seed}" if training.key and several else training.key,
            )
        )
    return requests


def resume_request(
    paths: RunPaths, which: str, words: Sequence[str], run_id: str | None, key: str | None
) -> JobRequest:
    """Resume a run, or a fork of it if an earlier checkpoint is named; `words` are further options as typed."""
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


def enqueue(root: Path, requests: Iterable[JobRequest], *, json: bool) -> list[Job]:
    """Add jobs, start a runner if none is alive, and print the jobs."""
    from gymlab.campaigns.queue.runner import ensure_runner
    from gymlab.campaigns.queue.store import Queue

    store = Queue(root)
    jobs = store.add(*requests)
    ensure_runner(store)
    if json:
        waiting = [job.id for job in store.jobs() if job.state == "waiting"]
        print_json({"jobs": [_job_json(job, waiting) for job in jobs]})
        return jobs
    for job in jobs:
        typer.echo(f"job {job.id}: {job.title}" + (f" ({job.run_id})" if job.run_id else ""))
    typer.echo("next: gymlab queue wait")
    return jobs


def format_options(*options: tuple[str, Any]) -> tuple[str, ...]:
    """Options as typed, without those that are not set."""
    words: list[str] = []
    for name, value in options:
        for one in value if isinstance(value, list) else [value]:
            if one is True or (one and name == "--wandb") or one == "":
                words.append(name if one is True else f"{name}={one}")
            elif one:
                words += [name, str(one)] if name else [str(one)]
    return tuple(words)


def queue_training(
    target: RecipeArguments, seeds: str | None, new: NewRunOptions, key: str | None, launch: LaunchOptions
) -> None:
    """`gymlab train --queue`."""
    from gymlab.recipes.project_settings import runs_folder

    options = format_options(
        ("--tag", list(new.tags)),
        ("--note", new.note),
        ("--init-from", new.init_from),
        ("--full-budget", new.full_budget),
        ("--tensorboard", launch.tensorboard),
        ("--wandb", launch.wandb),
    )
    every_seed = [new.seed] if seeds is None else parse_seeds(seeds, new.seed)
    training = QueuedTraining(target, every_seed, new.run_id, new.group, key, options)
    enqueue(runs_folder(), train_requests(runs_folder(), training), json=launch.json)


def queue_resume(run: str | None, changes: ResumeOptions, key: str | None, launch: LaunchOptions) -> None:
    """`gymlab resume --queue`."""
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_checkpoint

    name = run or newest_interrupted()
    if name is None:
        return
    if group_named(name) is not None:
        raise UserError(f"--queue: '{name}' is a group: queue its runs, or `gymlab resume {name}`")
    words = format_options(
        ("", list(changes.overrides)),
        ("--set", list(changes.sets)),
        ("--budget", changes.budget),
        ("--full-budget", changes.full_budget),
        ("--no-full-budget", changes.full_budget is False),
        ("--no-optimizer", changes.no_optimizer),
        ("--reschedule", changes.reschedule),
    )
    paths, which = select_checkpoint(name, runs_folder(), default="last")
    enqueue(runs_folder(), [resume_request(paths, which, words, changes.run_id, key)], json=launch.json)


def _job_json(job: Job, waiting: list[str]) -> dict[str, Any]:
    before = waiting.index(job.id) if job.id in waiting else None
    return {"job": job.id, "run_id": job.run_id, "state": job.state, "title": job.title, "before": before}
