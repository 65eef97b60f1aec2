"""`gymlab runs`: what was trained, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from gymlab.runs.paths import RunPaths

app = typer.Typer(help="List, show, export, tag and remove runs.")

Run = Annotated[str, typer.Argument(metavar="RUN", help="Id, unique beginning, path, @last, @best or @best:ENV.")]
Last = Annotated[int | None, typer.Option("--last", min=1, help="Only the newest N.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_COLUMNS = ("id", "name", "seed", "status", "env_steps", "best_return", "solved", "tags", "created")
_STYLES = {"running": "cyan", "finished": "green", "stopped": "yellow", "crashed": "red", "failed": "red"}


@app.callback(invoke_without_command=True)
def runs(context: typer.Context, last: Last = None, as_json: Json = False) -> None:
    """List, show, export, tag and remove runs.

    Example: gymlab runs --last 5 --json
    """
    if context.invoked_subcommand is None:
        list_runs(last, as_json)


@app.command("list")
def list_runs(last: Last = None, as_json: Json = False) -> None:
    """List runs, newest first.

    Example: gymlab runs list --last 5
    """
    from gymlab.recipes.settings_file import runs_folder
    from gymlab.runs.registry import Registry

    root = runs_folder()
    registry = Registry(root)
    entries = registry.runs()[:last]
    for note in registry.notes:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        _print_json(entries)
    elif entries:
        _print_table(entries)
    else:
        typer.echo(f"no runs in '{root}' yet: gymlab train CartPole-v1")


@app.command()
def show(run: Run, as_json: Json = False) -> None:
    """Show a run: status, origin, checkpoints, newest metrics.

    Example: gymlab runs show @last
    """
    facts = _facts(_select(run))
    if as_json:
        _print_json(facts)
        return
    for heading, part in facts.items():
        typer.echo(f"{heading}:" + ("" if isinstance(part, dict) else f" {_printable(part)}"))
        for name, value in part.items() if isinstance(part, dict) else ():
            typer.echo(f"  {_printable(name)}: {_printable(value)}")


@app.command()
def export(run: Run, csv: Annotated[Path, typer.Option("--csv", help="File to write.")]) -> None:
    """Export a run's metrics, one row per update, every number exact.

    Example: gymlab runs export @last --csv metrics.csv
    """
    from gymlab.core.errors import UserError
    from gymlab.runs.metrics import MetricsReader

    with MetricsReader(_select(run).metrics) as reader:
        try:
            count = reader.to_csv(csv)
        except OSError as error:
            raise UserError(f"cannot write '{csv}': {error.strerror}") from error
    typer.echo(f"{count} rows written to {csv}")


@app.command()
def tag(
    run: Run,
    tag: Annotated[str, typer.Argument(metavar="TAG", help="Letters, digits, '.', '_', '-'.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take the tag away.")] = False,
) -> None:
    """Tag a run.

    Example: gymlab runs tag @last baseline
    """
    from gymlab.core.errors import UserError
    from gymlab.runs.paths import valid_run_id
    from gymlab.runs.registry import Registry

    if not valid_run_id(tag):
        raise UserError(f"tag {tag[:80]!r} is not valid: letters, digits, '.', '_' and '-', at most 64")
    paths = _select(run)
    registry = Registry(paths.root.parent)
    tags = registry.set_tags(paths, lambda old: sorted({*old} - {tag} if remove else {*old, tag}))
    typer.echo(f"{paths.run_id}: {', '.join(tags) or 'no tags'}")


@app.command()
def rm(run: Run) -> None:
    """Remove a run of the runs folder, for good. One that is running is refused.

    Example: gymlab runs rm cartpole-v1-ppo-20261115
    """
    from gymlab.core.errors import UserError
    from gymlab.recipes.settings_file import runs_folder
    from gymlab.runs.store import remove_run

    paths = _select(run)
    if paths.root.resolve().parent != runs_folder().resolve():
        raise UserError(f"'{run}' is not in the runs folder '{runs_folder()}': remove it yourself")
    remove_run(paths)
    typer.echo(f"{paths.run_id} removed")


@app.command()
def reindex() -> None:
    """Rebuild registry.json from the run folders.

    Example: gymlab runs reindex
    """
    from gymlab.recipes.settings_file import runs_folder
    from gymlab.runs.registry import Registry

    entries = Registry(runs_folder()).reindex()
    typer.echo(f"{len(entries)} runs in {runs_folder()}")


def _select(run: str) -> RunPaths:
    from gymlab.recipes.settings_file import runs_folder
    from gymlab.runs.select import select_run

    return select_run(run, runs_folder())


def _facts(paths: RunPaths) -> dict[str, Any]:
    from gymlab.core.errors import RunError
    from gymlab.runs.checkpoints import read_index, steps
    from gymlab.runs.manifest import read_manifest
    from gymlab.runs.metrics import MetricsReader
    from gymlab.runs.registry import summarize
    from gymlab.runs.status import read_status

    try:
        with MetricsReader(paths.metrics) as reader:
            newest = reader.last()
    except RunError:
        newest = {}
    return {
        "run": summarize(paths),
        "folder": str(paths.root),
        "status": read_status(paths),
        "manifest": read_manifest(paths),
        "checkpoints": {**read_index(paths), "env_steps": steps(paths)},
        "metrics": newest,
    }


def _print_json(value: Any) -> None:
    from gymlab.runs.files import strict_json

    typer.echo(strict_json(value))


def _print_table(entries: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*(column.replace("_", " ") for column in _COLUMNS), box=None, header_style="bold")
    for entry in entries:
        style = _STYLES.get(str(entry.get("status")), "")
        cells = [Text(_printable(entry.get(column)), style if column == "status" else "") for column in _COLUMNS]
        table.add_row(*cells)
    Console().print(table)


def _printable(value: Any) -> str:
    """A value as text a terminal cannot be tricked with: what a run says of itself may come from strangers."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(_printable, value)) or "-"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return "".join(letter if letter.isprintable() else "?" for letter in text)
