"""`gymlab results`: train the plan's recipes over seeds, score them alike, and write the table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import Dry, Jobs, Json, print_json

if TYPE_CHECKING:
    from gymlab.campaigns.benchmark_table.plan import BenchmarkRow
    from gymlab.campaigns.benchmark_table.table import BenchmarkResult
    from gymlab.campaigns.scored_runs import ScoredRun, ScoredRunOutcome

app = typer.Typer(no_args_is_help=True, help="Many seeds of every recipe, scored on fresh episodes: the proof.")

Rows = Annotated[
    list[str] | None, typer.Argument(metavar="[RECIPE ...]", help="Rows by title, recipe or env; default: all.")
]
Folder = Annotated[Path, typer.Option("--folder", help="Holds plan.yaml and the results, one file per seed.")]


@app.command()
def run(
    recipes: Rows = None,
    folder: Folder = Path("results"),
    seeds: Annotated[str | None, typer.Option("--seeds", help="Only these of the plan's: 2 or 0..1.")] = None,
    jobs: Jobs = 1,
    dry: Dry = False,
    json: Json = False,
) -> None:
    """Train and score what has no result yet, or a stale one; interrupted runs are resumed, finished ones are kept.

    Example: gymlab results run CartPole-v1:ppo --jobs 2
    """
    from gymlab.campaigns.benchmark_table.record import write_record
    from gymlab.campaigns.benchmark_table.table import read_result, record_path, result_json
    from gymlab.campaigns.eta import known_speeds, time_left
    from gymlab.cli.progress import run_jobs
    from gymlab.recipes.project_settings import runs_folder

    rows = _rows(folder, recipes, seeds)
    todo = _todo(folder, rows)
    for result, _ in todo:
        for seed, changed in result.stale.items():
            typer.echo(f"{result.row.title} seed {seed}: stale, trained again: {', '.join(changed[:5])}", err=True)
    everything = [job for _, found in todo for job in found]
    guess = time_left(everything, known_speeds(runs_folder())).format(min(jobs, max(len(everything), 1)))
    said = f"{len(everything)} runs to train or score, {guess}" if everything else "nothing to do: all results are here"
    typer.echo(said, err=True)
    owners = {job.paths.run_id: result.row for result, found in todo for job in found}

    def keep(outcome: ScoredRunOutcome) -> None:
        if outcome.record is not None:
            write_record(record_path(folder, owners[outcome.record.run_id], outcome.record.seed), outcome.record)

    done: list[ScoredRunOutcome] = []
    if everything and not dry:
        done = run_jobs(everything, jobs, runs_folder(), f"`gymlab results run --folder {folder}`", keep)
    results = [read_result(folder, row) for row in _rows(folder, recipes, None)]
    if json:
        print_json([result_json(result) for result in results])
    else:
        _print(results)
        typer.echo("next: gymlab results show --write")
    if any(outcome.record is None for outcome in done):
        raise typer.Exit(1)


@app.command()
def show(
    recipes: Rows = None,
    folder: Folder = Path("results"),
    write: Annotated[bool, typer.Option("--write", help="Also write docs/results.md and its pictures.")] = False,
    json: Json = False,
) -> None:
    """Print the table: scores with intervals, marks, steps to threshold, and what is missing or stale.

    Example: gymlab results show CartPole-v1
    """
    from gymlab.campaigns.benchmark_table.page import write_page
    from gymlab.campaigns.benchmark_table.plan import FILE, read_plan
    from gymlab.campaigns.benchmark_table.table import read_result, result_json

    results = [read_result(folder, row) for row in _rows(folder, recipes, None)]
    if write:
        every = [read_result(folder, row) for row in read_plan(folder / FILE)]
        for path in write_page(every, Path()):
            typer.echo(f"wrote {path}", err=True)
    if json:
        print_json([result_json(result) for result in results])
        return
    _print(results)
    missing = next((result for result in results if result.missing or result.stale), None)
    typer.echo(f"next: gymlab results run '{missing.row.title}'" if missing else "next: gymlab results show --write")


def _rows(folder: Path, names: list[str] | None, seeds: str | None) -> tuple[BenchmarkRow, ...]:
    from gymlab.campaigns.benchmark_table.plan import FILE, parse_seeds, read_plan, select_rows
    from gymlab.core.errors import UserError

    rows = select_rows(read_plan(folder / FILE), names or [])
    if seeds is None:
        return rows
    try:
        requested = parse_seeds(seeds)
    except ValueError as error:
        raise UserError(f"--seeds: {error}") from None
    kept = [(row, tuple(seed for seed in row.seeds or () if seed in requested)) for row in rows]
    if not any(seeds for _, seeds in kept):
        raise UserError(f"--seeds {seeds}: none of them is in the plan")
    return tuple(row.model_copy(update={"seeds": some}) for row, some in kept if some)


def _todo(folder: Path, rows: tuple[BenchmarkRow, ...]) -> list[tuple[BenchmarkResult, list[ScoredRun]]]:
    """The results with the runs they still need; a recipe that cannot be resolved here is reported and skipped."""
    from gymlab.campaigns.benchmark_table.table import read_result, seed_row
    from gymlab.campaigns.scored_runs import ScoredRun
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.paths import run_paths

    found = []
    for row in rows:
        result = read_result(folder, row)
        if result.fault:
            typer.echo(f"{row.title}: left out: {result.fault}", err=True)
            continue
        seeds = {*result.missing, *result.stale}
        needed = [each for each in seed_row(row) if each.seed in seeds] if seeds else []
        jobs = [ScoredRun(run_paths(runs_folder(), each.run_id), each, row.episodes or 100) for each in needed]
        found.append((result, jobs))
    return found


def _print(results: list[BenchmarkResult]) -> None:
    from gymlab.campaigns.benchmark_table.table import HEAD, format_cells
    from gymlab.reports.sections import columns

    for text in columns([HEAD, *map(format_cells, results)], right=range(1, 8)):
        typer.echo(text)
    for result in results:
        if result.fault:
            typer.echo(f"cannot be run here: {result.row.title}: {result.fault}")
        for seed, changed in result.stale.items():
            typer.echo(f"stale: {result.row.title} seed {seed}: {', '.join(changed[:5])}")
