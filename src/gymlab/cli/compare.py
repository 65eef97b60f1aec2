"""`gymlab compare`: is B better than A, and can that be told from chance?"""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from gymlab.cli.options import Dry, Jobs, Json, print_json


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
    as_json: Json = False,
) -> None:
    """Compare two recipes, changes of one, groups or runs: train what is missing, then score and time both alike.

    Example: gymlab compare MountainCar-v0:ppo MountainCar-v0:shaped --seeds 5 --jobs 2
    """
    from gymlab.campaigns import comparison
    from gymlab.campaigns.benchmark_table.plan import parse_seeds
    from gymlab.campaigns.benchmark_table.record import known_record
    from gymlab.campaigns.compare_arguments import CompareOptions, parse_side
    from gymlab.campaigns.eta import known_speeds, time_left
    from gymlab.cli.progress import run_jobs
    from gymlab.core.errors import RunError, UserError
    from gymlab.recipes.project_settings import runs_folder

    try:
        options = CompareOptions(parse_seeds(seeds), episodes, not until_solved, sets or (), budget)
    except ValueError as error:
        raise UserError(f"--seeds: {error}") from None
    root = runs_folder()
    side_jobs = (parse_side(a, root, options), parse_side(b, root, options, base=a))
    needed = {job.paths.run_id: job for part in side_jobs for job in part.jobs if job.next_phase() is not None}
    running = [job.title for job in needed.values() if job.trial is None and job.next_phase() == "wait"]
    if running:
        raise UserError(f"{running[0]} is still running: gymlab wait {running[0]}")
    todo = list(needed.values())
    trained = [job for job in todo if job.next_phase() != "score"]
    if todo:
        guess = f", {time_left(trained, known_speeds(root)).format(min(jobs, len(trained)))}" if trained else ""
        typer.echo(f"{len(trained)} runs to train and {len(todo)} to score{guess}", err=True)
    if dry:
        for job in todo:
            typer.echo(job.title)
        typer.echo("next: the same without --dry")
        return
    failed = [outcome.run.title for outcome in run_jobs(todo, jobs, root, "the same command") if not outcome.record]
    if failed:
        raise RunError(f"no result of {', '.join(failed)}: nothing is compared")
    sides = [
        comparison.Side(part.label, tuple(r for job in part.jobs if (r := known_record(job.paths, episodes))))
        for part in side_jobs
    ]
    found = comparison.compare(sides[0], sides[1], threshold=threshold, judged=judged)
    if as_json:
        print_json(comparison.comparison_json(found))
        return
    typer.echo("\n".join(comparison.format_comparison(found)))
    first_runs = " ".join(job.paths.run_id for part in side_jobs for job in part.jobs[:1])
    typer.echo(f"next: gymlab runs compare {first_runs}")
