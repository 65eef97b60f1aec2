"""`gymlab compare`: is B better than A, and is the difference significant?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gymlab.cli.options import Dry, Jobs, Json, print_json

if TYPE_CHECKING:
    from pathlib import Path

    from gymlab.campaigns.scored_runs import ScoredRun


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A recipe, 'RECIPE key=value ...', RUN[,RUN ...] or group:G.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The same, or only key=value ...: A with that changed.")],
    seeds: Annotated[str, typer.Option("--seeds", help="Of recipes: how many, or a range such as 5..9.")] = "5",
    budget: Annotated[str | None, typer.Option("--budget", help="Of recipes: default their own.")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="key=value for both sides, e.g. eval.every=2%.")
    ] = None,
    until_solved: Annotated[
        bool, typer.Option("--until-solved", help="Stop runs when solved: quicker, but scores then end alike.")
    ] = False,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Time them to this; default: solved_at.")
    ] = None,
    judged: Annotated[Literal["greedy", "sampled"], typer.Option("--judged", help="Which score counts.")] = "greedy",
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Scoring episodes of each way of acting.")] = 100,
    jobs: Jobs = 1,
    dry: Dry = False,
    json: Json = False,
) -> None:
    """Compare two recipes, changes of one, groups or runs: train what is missing, then score and time both alike.

    Example: gymlab compare MountainCar-v0:ppo MountainCar-v0:shaped --seeds 5 --jobs 2
    """
    from gymlab.campaigns import comparison
    from gymlab.campaigns.benchmark_table.plan import parse_seeds
    from gymlab.campaigns.benchmark_table.record import known_record
    from gymlab.campaigns.compare_arguments import CompareOptions, parse_side
    from gymlab.core.errors import UserError
    from gymlab.recipes.project_settings import runs_folder

    try:
        options = CompareOptions(parse_seeds(seeds), episodes, not until_solved, sets or (), budget)
    except ValueError as error:
        raise UserError(f"--seeds: {error}") from None
    root = runs_folder()
    side_jobs = (parse_side(a, root, options), parse_side(b, root, options, base=a))
    todo = _missing_jobs([job for part in side_jobs for job in part.jobs], root, jobs)
    if dry:
        for job in todo:
            typer.echo(job.title)
        typer.echo("next: the same without --dry")
        return
    _run_all(todo, root, jobs)
    sides = [
        comparison.Side(part.label, tuple(r for job in part.jobs if (r := known_record(job.paths, episodes))))
        for part in side_jobs
    ]
    found = comparison.compare(sides[0], sides[1], threshold=threshold, judged=judged)
    if json:
        print_json(comparison.comparison_json(found))
        return
    typer.echo("\n".join(comparison.format_comparison(found)))
    first_runs = " ".join(job.paths.run_id for part in side_jobs for job in part.jobs[:1])
    typer.echo(f"next: gymlab runs compare {first_runs}")


def _missing_jobs(every: Iterable[ScoredRun], root: Path, width: int) -> list[ScoredRun]:
    """The jobs without a result, each once; prints how many there are and how long they take."""
    from gymlab.campaigns.eta import known_speeds, time_left
    from gymlab.core.errors import UserError

    missing = {job.paths.run_id: job for job in every if job.next_phase() is not None}
    running = [job.title for job in missing.values() if job.seeded is None and job.next_phase() == "wait"]
    if running:
        raise UserError(f"{running[0]} is still running: gymlab wait {running[0]}")
    todo = list(missing.values())
    trained = [job for job in todo if job.next_phase() != "score"]
    if todo:
        eta = f", {time_left(trained, known_speeds(root)).format(min(width, len(trained)))}" if trained else ""
        typer.echo(f"{len(trained)} runs to train and {len(todo)} to score{eta}", err=True)
    return todo


def _run_all(jobs: list[ScoredRun], root: Path, width: int) -> None:
    """Train and score; RunError if a job has no result."""
    from gymlab.cli.progress import run_jobs
    from gymlab.core.errors import RunError

    failed = [outcome.run.title for outcome in run_jobs(jobs, width, root, "the same command") if not outcome.record]
    if failed:
        raise RunError(f"no result of {', '.join(failed)}: nothing is compared")
