"""`gymlab pretrained`: lists the trained policies of the package, and packs a run as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gymlab.cli.options import Json, RunArgument, print_json

app = typer.Typer(no_args_is_help=True, help="Trained policies that come with gymlab, and packing your own.")


@app.command("list")
def list_policies(json: Json = False) -> None:
    """List the trained policies: scores on 100 fresh episodes, and what they were trained by.

    Example: gymlab pretrained list
    """
    from gymlab.campaigns.pretrained import pretrained_policies
    from gymlab.reports.sections import columns, printable

    every = pretrained_policies()
    if json:
        print_json([item.about for item in every])
        return
    rows = [("recipe", "greedy", "sampled", "exact", "env steps", "bytes")]
    for item in every:
        about = item.about
        scores = [f"{about['scores'][mode]['mean']:.4g} ± {about['scores'][mode]['std']:.3g}" for mode in _MODES]
        exact = "-" if about["exact"] is None else f"{about['exact']:.4g}"
        rows.append((printable(item.name), scores[0], scores[1], exact, str(about["env_steps"]), str(about["bytes"])))
    typer.echo("\n".join(columns(rows, right=range(1, 6))))
    typer.echo(f"next: gymlab play --pretrained {every[0].env if every else 'CartPole-v1'}")


_MODES = ("greedy", "sampled")


@app.command()
def make(
    run: RunArgument,
    into: Annotated[Path, typer.Option("--into", help="The folder it is put in.")] = Path("pretrained"),
    json: Json = False,
) -> None:
    """Pack a run's best policy with its recipe and its scores; it is scored first where that was not done yet.

    Example: gymlab pretrained make @best:CartPole-v1
    """
    from gymlab.campaigns.benchmark_table.record import known_record
    from gymlab.campaigns.pretrained import pack
    from gymlab.campaigns.scored_runs import ScoredRun
    from gymlab.cli.progress import run_jobs
    from gymlab.core.errors import RunError
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_run

    paths = select_run(run, runs_folder())
    record = known_record(paths, 100)
    if record is None:
        (outcome,) = run_jobs([ScoredRun(paths, None, 100)], 1, runs_folder(), "the same command")
        record = outcome.record
    if record is None:
        raise RunError(f"{paths.run_id} could not be scored: gymlab eval {paths.run_id}")
    item = pack(paths, record, into)
    if json:
        print_json({**item.about, "folder": str(item.path)})
        return
    typer.echo(f"{item.name}: {item.about['bytes']} bytes in {item.path}")
    typer.echo(f"next: gymlab play --pretrained {item.name}")
