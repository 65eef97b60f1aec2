"""`gymlab queue`: what waits, what runs and what came of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import Json, Timeout, print_json

if TYPE_CHECKING:
    from gymlab.campaigns.queue.jobs import Job
    from gymlab.campaigns.queue.store import Queue

app = typer.Typer(help="List, wait for, cancel and limit what waits in the queue.")

TIMED_OUT = 124  # as `timeout` has it
_POLL_SECONDS = 0.2
_SHOWN = 20


@app.callback(invoke_without_command=True)
def queue(context: typer.Context, as_json: Json = False) -> None:
    """List, wait for, cancel and limit what waits in the queue.

    Example: gymlab queue
    """
    if context.invoked_subcommand is None:
        list_jobs(every=False, as_json=as_json)


@app.command("list")
def list_jobs(
    every: Annotated[bool, typer.Option("--all", help="Also all that has ended; default: the last 20.")] = False,
    as_json: Json = False,
) -> None:
    """List the jobs in the order they were put in.

    Example: gymlab queue list --json
    """
    from gymlab.campaigns.queue.summary import facts, table

    jobs_queue = _queue()
    contents = jobs_queue.read()
    runner = jobs_queue.runner()
    ended = [job for job in contents.jobs if not job.open]
    hidden = set() if every else {job.id for job in ended[: max(0, len(ended) - _SHOWN)]}
    jobs = [job for job in contents.jobs if job.id not in hidden]
    if as_json:
        limits = {"jobs": contents.limits.jobs, "steps": contents.limits.steps}
        known = [facts(jobs_queue.root, job) for job in jobs]
        print_json({"jobs": known, "limits": limits, "runner": None if runner is None else runner.pid})
        return
    if not jobs:
        typer.echo("the queue is empty: gymlab train CartPole-v1 --queue")
        return
    typer.echo("\n".join(table(jobs_queue.root, jobs)))
    if hidden:
        typer.echo(f"(and {len(hidden)} older: --all)")
    if any(job.open for job in jobs):
        typer.echo(f"worked on by {runner}" if runner else "nobody works on it: gymlab queue wait")


@app.command()
def wait(
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="[JOB ...]", help="Numbers or runs; default: all.")
    ] = None,
    timeout: Timeout = None,
    as_json: Json = False,
) -> None:
    """Wait until jobs have ended, and sum up. Exit code 1 where one failed, 124 not in time.

    Example: gymlab queue wait --timeout 3600
    """
    from gymlab.campaigns.queue.runner import ensure_runner
    from gymlab.campaigns.queue.summary import facts, summary

    queue_ = _queue()
    waited = [queue_.find(name).id for name in jobs or ()] or [job.id for job in queue_.jobs() if job.open]
    deadline = None if timeout is None else time.monotonic() + timeout
    late = False
    while any(job.open for job in _named(queue_, waited)) and not late:
        ensure_runner(queue_)
        time.sleep(_POLL_SECONDS)
        late = deadline is not None and time.monotonic() > deadline
    found = _named(queue_, waited)
    if as_json:
        print_json({"jobs": [facts(queue_.root, job) for job in found]})
    else:
        typer.echo("\n".join(summary(queue_.root, found)))
    if any(job.open for job in found):
        raise typer.Exit(TIMED_OUT)
    if any(job.state == "failed" for job in found):
        raise typer.Exit(1)


@app.command()
def cancel(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB ...]", help="Numbers or runs.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Everything that waits or runs.")] = False,
    as_json: Json = False,
) -> None:
    """Take jobs out of the queue; one that runs is asked to stop, a training with a checkpoint.

    Example: gymlab queue cancel 3
    """
    from gymlab.campaigns.queue.summary import facts
    from gymlab.core.errors import UserError

    queue_ = _queue()
    if not jobs and not every:
        raise UserError("which jobs? Name them, or --all")
    chosen = [job for job in queue_.jobs() if job.open] if every else [queue_.find(name) for name in jobs or ()]
    done = [queue_.cancel(job.id) for job in chosen]
    if as_json:
        print_json({"jobs": [facts(queue_.root, job) for job in done]})
        return
    for job in done:
        told = "is asked to stop" if job.state == "running" else job.state
        typer.echo(f"job {job.id}: {told}")
    if not done:
        typer.echo("nothing waits or runs")


@app.command()
def limits(
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", min=1, help="Jobs at once.")] = None,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="N", help="Env steps of all running jobs, e.g. 5M; 0: no limit.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show or set what may run at once; what does not fit waits. Default: as many jobs as there are cores.

    Example: gymlab queue limits --jobs 1
    """
    from gymlab.core.clock import parse_number
    from gymlab.core.errors import UserError
    from gymlab.core.format import format_count

    wanted = None if steps is None else parse_number(steps)
    if steps is not None and (not isinstance(wanted, int) or wanted < 0):
        raise UserError(f"--steps {steps}: a number of env steps such as 500k or 5M, or 0 for no limit")
    queue_ = _queue()
    changed = jobs is not None or steps is not None
    now = queue_.limit(jobs, int(wanted) if wanted is not None else None) if changed else queue_.read().limits
    if as_json:
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

    told = QueueRunner(_queue()).run()
    typer.echo("another process works through it: gymlab queue wait" if told is None else "\n".join(told))


def _queue() -> Queue:
    from gymlab.campaigns.queue.store import Queue
    from gymlab.recipes.project_settings import runs_folder

    return Queue(runs_folder())


def _named(queue_: Queue, ids: list[str]) -> list[Job]:
    return [job for job in queue_.jobs() if job.id in ids]
