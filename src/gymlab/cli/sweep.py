"""`gymlab sweep`: try many settings, never lose a trial, and write the best out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gymlab.cli.options import DrawSeed, JsonAtEnd, Quiet, RunBudget, Workers, output_mode, parse_seeds, print_json
from gymlab.session.run_guard import guard_command

if TYPE_CHECKING:
    from gymlab.campaigns.sweep.plan import SweepOptions
    from gymlab.campaigns.sweep.store import TrialStore


class _WithRecipe(TyperGroup):
    """`gymlab sweep RECIPE ...` begins a sweep: what is none of the words below is the recipe."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help",):
            args = ["start", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_WithRecipe, no_args_is_help=True, help="Try many settings of a recipe: gymlab sweep RECIPE ...")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The sweep.")]
Storage = Annotated[str | None, typer.Option(metavar="URL", help="Database, e.g. sqlite:///s.db; default: a journal.")]
TakeOver = Annotated[
    bool, typer.Option("--take-over", help="Also do the trials of other machines, which must have ended.")
]


@app.command()
def start(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="ENV[:VARIANT] or FILE.yaml[:VARIANT].")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[key=value ...]", help="Overrides of all trials.")
    ] = None,
    space: Annotated[
        list[str] | None,
        typer.Option("--space", metavar="KEY=...", help="1,2,3 or 0.1..0.9, log:1e-5..1e-2, int:1..5; again for more."),
    ] = None,
    method: Annotated[str, typer.Option(help="grid, random, tpe or cma.")] = "tpe",
    prune: Annotated[str, typer.Option(help="none, halving or median: give worse trials up early.")] = "none",
    trials: Annotated[int | None, typer.Option(min=1, help="How many; default 20, of a grid all.")] = None,
    seeds: Annotated[str, typer.Option(metavar="K|A..B|A,B", help="Runs of each trial; its score is their IQM.")] = "1",
    budget: RunBudget = None,
    seed: DrawSeed = 0,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Trials decided on together; they do not wait for each other.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the sweep; its runs are NAME-tTRIAL-sSEED.")] = None,
    storage: Storage = None,
    init_from: Annotated[
        str | None, typer.Option("--from", metavar="RUN[/CHECKPOINT]", help="Every run starts from this policy.")
    ] = None,
    vmap: Annotated[bool, typer.Option("--vmap", help="A round is one compiled program: for GPUs.")] = False,
    until_solved: Annotated[bool, typer.Option("--until-solved", help="Stop runs when solved.")] = False,
    stop_at_critical: Annotated[
        bool, typer.Option("--stop-at-critical", help="Prune a trial at a critical alert.")
    ] = False,
    workers: Workers = None,
    quiet: Quiet = False,
    json: JsonAtEnd = False,
) -> None:
    """Start a sweep, or resume it if the same command was interrupted.

    Example: gymlab sweep CartPole-v1:ppo --space ppo.learning_rate=log:1e-4..1e-2 --trials 8 --budget 20k
    """
    with guard_command("before the sweep began"):
        from gymlab.campaigns.sweep.plan import SweepOptions

        options = SweepOptions(
            recipe,
            tuple(overrides or ()),
            tuple(space or ()),
            tuple(parse_seeds(seeds)),
            method,
            prune,
            trials,
            batch,
            budget,
            seed,
            name,
            storage,
            init_from,
            vmap,
            until_solved,
            stop_at_critical,
        )
        _run(_create_store(options, quiet=quiet), workers, quiet=quiet, json=json)


@app.command()
def resume(
    name: Name,
    storage: Storage = None,
    take_over: TakeOver = False,
    workers: Workers = None,
    quiet: Quiet = False,
    json: JsonAtEnd = False,
) -> None:
    """Resume a sweep: trials that were running resume from their runs' last checkpoints.

    Example: gymlab sweep resume my-sweep
    """
    with guard_command("before the sweep went on"):
        _run(_open_store(name, storage), workers, quiet=quiet, json=json, take_over=take_over)


@app.command()
def join(
    name: Name, storage: Storage = None, workers: Workers = None, quiet: Quiet = False, json: JsonAtEnd = False
) -> None:
    """Help with a sweep that another process or machine does; no trial is done twice.

    Example: gymlab sweep join my-sweep --storage postgresql://host/sweeps
    """
    with guard_command("before the sweep was joined"):
        _run(_open_store(name, storage), workers, quiet=quiet, json=json)


@app.command()
def status(name: Name, storage: Storage = None, json: JsonAtEnd = False) -> None:
    """Say how far a sweep is and what its best trial is.

    Example: gymlab sweep status my-sweep --json
    """
    from gymlab.campaigns.sweep import sweep_status

    store = _open_store(name, storage)
    trials = store.trials()
    if json:
        print_json(sweep_status.status(store.plan, trials))
        return
    typer.echo(sweep_status.format_headline(store.plan, trials))
    typer.echo("\n".join(sweep_status.format_best(store.plan, trials)))


@app.command()
def results(name: Name, storage: Storage = None, json: JsonAtEnd = False) -> None:
    """List the trials of a sweep, the best first.

    Example: gymlab sweep results my-sweep
    """
    from gymlab.campaigns.sweep import sweep_status

    store = _open_store(name, storage)
    trials = store.trials()
    if json:
        print_json(sweep_status.results(store.plan, trials))
        return
    typer.echo(
        "\n".join([sweep_status.format_headline(store.plan, trials), *sweep_status.format_table(store.plan, trials)])
    )
    typer.echo("\n".join(sweep_status.format_best(store.plan, trials)))


@app.command()
def best(
    name: Name,
    storage: Storage = None,
    write: Annotated[bool, typer.Option("--write", help="Write it as a variant into ./recipes.")] = False,
    variant: Annotated[str | None, typer.Option("--as", help="The variant's name; default: the sweep's.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    json: JsonAtEnd = False,
) -> None:
    """Show the best trial; with --write as a recipe of your own.

    Example: gymlab sweep best my-sweep --write --as tuned
    """
    from gymlab.campaigns.sweep import sweep_status
    from gymlab.campaigns.sweep.best import provenance, variant_name, write_variant
    from gymlab.campaigns.sweep.store import best_trial
    from gymlab.core.errors import RunError

    store = _open_store(name, storage)
    plan = store.plan
    trials = store.trials()
    found = best_trial(trials)
    if found is None:
        raise RunError(f"no trial of '{name}' has finished yet: gymlab sweep status {name}")
    path = None
    if write or variant is not None:
        chosen = variant or variant_name(plan)
        overrides = [*plan.overrides, *([f"budget={plan.budget}"] if plan.budget else []), *found.overrides]
        path = write_variant(plan.reference, overrides, chosen, provenance(plan, trials, found), force=force)
    if json:
        print_json(
            {**(sweep_status.status(plan, trials)["best"] or {}), "written": None if path is None else str(path)}
        )
        return
    typer.echo("\n".join(sweep_status.format_best(plan, trials)))
    if path is not None:
        typer.echo(f"written: {path}\nnext: gymlab compare {plan.reference} {path}")
    else:
        typer.echo(f"next: gymlab sweep best {name} --write")


@app.command()
def plot(
    name: Name,
    storage: Storage = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A PNG; default: in the sweep's folder.")
    ] = None,
    json: JsonAtEnd = False,
) -> None:
    """Draw the score against each setting, and how much each of them matters.

    Example: gymlab sweep plot my-sweep -o sweep.png
    """
    from gymlab.campaigns.sweep.plots import draw, importances
    from gymlab.runs.files import write_bytes

    store = _open_store(name, storage)
    path = output or store.folder / "sweep.png"
    write_bytes(path, draw(store))
    found = importances(store)
    if json:
        print_json({"picture": str(path), "importances": found})
        return
    for key, value in found.items():
        typer.echo(f"  {key:<30} {value:.2f}")
    typer.echo(f"picture: {path}")


def _create_store(options: SweepOptions, *, quiet: bool) -> TrialStore:
    """The trial store of a new sweep, or of the interrupted one that has the same plan; prints the plan's notes."""
    from gymlab.campaigns.sweep.plan import make_plan, reuse_plan
    from gymlab.campaigns.sweep.store import create_store
    from gymlab.recipes.project_settings import runs_folder

    plan, notes = make_plan(options, runs_folder())
    for note in [] if quiet else notes:
        typer.echo(note, err=True)
    return create_store(runs_folder(), reuse_plan(plan, runs_folder()))


def _open_store(name: str, storage: str | None) -> TrialStore:
    from gymlab.campaigns.sweep.store import open_store
    from gymlab.recipes.project_settings import runs_folder

    return open_store(runs_folder(), name, storage)


def _run(store: TrialStore, workers: int | None, *, quiet: bool, json: bool, take_over: bool = False) -> None:
    from gymlab.campaigns.sweep import sweep_status
    from gymlab.campaigns.sweep.runner import run_sweep
    from gymlab.cli.detach import typed_command
    from gymlab.recipes.project_settings import runs_folder

    output = output_mode(quiet=quiet, json=json)
    outcome = run_sweep(runs_folder(), store, workers, output=output, command=typed_command(), take_over=take_over)
    plan = outcome.plan
    trials = outcome.trials
    if json:
        print_json(sweep_status.results(plan, trials))
    elif not quiet:
        lines = [sweep_status.format_headline(plan, trials), *sweep_status.format_table(plan, trials)]
        lines += sweep_status.format_best(plan, trials)
        verb = "best" if outcome.complete else "resume"
        typer.echo("\n".join([*lines, f"next: gymlab sweep {verb} {plan.name}"]))
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)
