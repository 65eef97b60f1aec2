"""`gymlab runs`: lists, shows, compares, plots, exports, tags and removes stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import Json, RunArgument, print_json

if TYPE_CHECKING:
    from gymlab.reports.run_facts import Facts
    from gymlab.runs.paths import RunPaths
    from gymlab.runs.records import RegistryEntry

app = typer.Typer(help="List, show, compare, plot, export, tag and remove runs.")

Runs = Annotated[list[str], typer.Argument(metavar="RUN ...", help="Runs, each as in `runs show`.")]
Axis = Annotated[str, typer.Option("--axis", help="vec_steps, env_steps, updates, gradient_steps or seconds.")]
Smooth = Annotated[float, typer.Option("--smooth", min=0, max=1, help="Mean over this share of the axis, e.g. 0.05.")]
Last = Annotated[int | None, typer.Option("--last", min=1, help="Only the newest N.")]

_COLUMNS = ("id", "name", "seed", "status", "env_steps", "score", "solved", "tags", "created")
_WIDE_ONLY = ("name", "tags", "created")
_WIDE_COLUMNS = 130
_STYLES = {"running": "cyan", "finished": "green", "stopped": "yellow", "crashed": "red", "failed": "red"}


@app.callback(invoke_without_command=True)
def runs(context: typer.Context, last: Last = None, json: Json = False) -> None:
    """List, show, compare, plot, export, tag and remove runs.

    Example: gymlab runs --last 5 --json
    """
    if context.invoked_subcommand is None:
        list_runs(last, json)


@app.command("list")
def list_runs(last: Last = None, json: Json = False) -> None:
    """List runs, newest first.

    Example: gymlab runs list --last 5
    """
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.registry import Registry

    root = runs_folder()
    registry = Registry(root)
    entries = registry.runs()[:last]
    for note in registry.notes:
        typer.echo(f"note: {note}", err=True)
    if json:
        print_json(entries)
    elif entries:
        _print_table(entries)
    else:
        typer.echo(f"no runs in '{root}' yet: gymlab train CartPole-v1")


@app.command()
def show(
    run: RunArgument,
    every: Annotated[bool, typer.Option("--all", help="Every metric of the last row.")] = False,
    json: Json = False,
) -> None:
    """Show a run: result, settings, newest metrics, curves, checkpoints and what to do next.

    Example: gymlab runs show @last
    """
    from gymlab.recipes.keys import default_settings
    from gymlab.reports.page import page, page_data
    from gymlab.runs.registry import summarize

    (facts,) = _read([run])
    if json:
        known = {"run": summarize(facts.paths), "folder": str(facts.paths.root), "status": facts.status}
        known |= {"manifest": facts.manifest, "checkpoints": facts.checkpoints, "metrics": facts.measured.last}
        print_json({**known, **page_data(facts)})
        return
    defaults = default_settings(facts.settings, of_algorithm=False)
    typer.echo("\n".join(page(facts, defaults, every_metric=every)))


@app.command()
def compare(
    runs: Runs,
    axis: Axis = "vec_steps",
    metric: Annotated[str | None, typer.Option("--metric", help="What to plot; default: the return.")] = None,
    smooth: Smooth = 0.0,
    json: Json = False,
) -> None:
    """Compare runs: scores, what was set differently, and one metric overlaid.

    Example: gymlab runs compare run-a run-b --axis env_steps
    """
    from gymlab.reports import compare as comparison

    name = metric or "roll/return_mean"
    facts = _read(runs, [name], axis)
    if json:
        print_json({"axis": axis, **comparison.data(facts, name)})
    else:
        typer.echo("\n".join(comparison.page(facts, name, smooth)))


@app.command()
def plot(
    runs: Runs,
    metric: Annotated[list[str] | None, typer.Option("--metric", help="What to plot; may be given again.")] = None,
    axis: Axis = "vec_steps",
    smooth: Smooth = 0.0,
    text: Annotated[bool, typer.Option("--text", help="As text (the default).")] = False,
    png: Annotated[Path | None, typer.Option("--png", help="Write a picture to this file.")] = None,
    json: Json = False,
) -> None:
    """Plot metrics of one or several runs, as text or as a picture.

    Example: gymlab runs plot @last --metric opt/entropy --png entropy.png
    """
    from gymlab.reports import compare as comparison
    from gymlab.reports import sections

    facts = _read(runs, metric, axis, points=1000 if png else 400)
    if png is not None:
        _write_picture(facts, metric, png, smooth)
    names = metric or ([] if len(facts) == 1 else ["roll/return_mean"])
    if json:
        shown = names or list(facts[0].measured.curves)
        curves = {f.run_id: {name: sections.curve_data(comparison.curve_of(f, name)) for name in shown} for f in facts}
        print_json({"axis": axis, "curves": curves, "png": None if png is None else str(png)})
    elif text or png is None:
        blocks = [comparison.overlay(facts, name, smooth) for name in names]
        blocks = blocks or [sections.return_plot(facts[0]), sections.sparklines(facts[0])]
        typer.echo("\n\n".join("\n".join(block) for block in blocks))


@app.command()
def export(run: RunArgument, csv: Annotated[Path, typer.Option("--csv", help="File to write.")]) -> None:
    """Export a run's metrics, one row per update, every number exact.

    Example: gymlab runs export @last --csv metrics.csv
    """
    from gymlab.core.errors import UserError
    from gymlab.runs.metrics_reader import MetricsReader

    with MetricsReader(_select(run).metrics) as reader:
        try:
            count = reader.to_csv(csv)
        except OSError as error:
            raise UserError(f"cannot write '{csv}': {error.strerror}") from error
    typer.echo(f"{count} rows written to {csv}")


@app.command()
def tag(
    run: RunArgument,
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
def rm(run: RunArgument) -> None:
    """Remove a run of the runs folder, for good. One that is running is refused.

    Example: gymlab runs rm cartpole-v1-ppo-20261115
    """
    from gymlab.core.errors import UserError
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.store import remove_run

    paths = _select(run, any_format=True)
    if paths.root.resolve().parent != runs_folder().resolve():
        raise UserError(f"'{run}' is not in the runs folder '{runs_folder()}': remove it yourself")
    remove_run(paths)
    typer.echo(f"{paths.run_id} removed")


@app.command()
def reindex() -> None:
    """Rebuild registry.json from the run folders.

    Example: gymlab runs reindex
    """
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.registry import Registry

    entries = Registry(runs_folder()).reindex()
    typer.echo(f"{len(entries)} runs in {runs_folder()}")


def _select(run: str, *, any_format: bool = False) -> RunPaths:
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_run

    return select_run(run, runs_folder(), any_format=any_format)


def _read(runs: list[str], metrics: list[str] | None = None, axis: str = "vec_steps", points: int = 400) -> list[Facts]:
    """Facts of each run once, with curves of `metrics`, by default of the headline metrics."""
    from gymlab.recipes.keys import read_settings
    from gymlab.reports.run_facts import read_facts

    paths = {selected.root: selected for selected in map(_select, runs)}.values()
    return [read_facts(p, read_settings(p.inside(p.recipe)), metrics=metrics, axis=axis, points=points) for p in paths]


def _write_picture(facts: list[Facts], metrics: list[str] | None, target: Path, smooth: float) -> None:
    from gymlab.core.errors import UserError
    from gymlab.reports import plots_png
    from gymlab.reports.report import known_bounds
    from gymlab.reports.sections import printable, return_metrics
    from gymlab.runs import files

    limits = known_bounds(facts[0])
    if metrics or len(facts) > 1:
        evaluated = [name for name in return_metrics(facts[0]) if all(name in run.measured.curves for run in facts)]
        panels = plots_png.side_by_side(facts, metrics or evaluated, limits)
    else:
        panels = plots_png.overview(facts[0], limits)
    title = " · ".join(dict.fromkeys(printable(run.name) for run in facts)) + (
        f" · {facts[0].run_id}" if len(facts) == 1 else f" · {len(facts)} runs"
    )
    try:
        files.write_bytes(target, plots_png.draw(panels, title, smooth=smooth))
    except OSError as error:
        raise UserError(f"cannot write '{target}': {error.strerror}") from error
    typer.echo(f"picture written to {target}", err=True)


def _print_table(entries: list[RegistryEntry]) -> None:
    """Formats the table itself: Rich takes five seconds for ten thousand rows."""
    import shutil

    from rich.cells import cell_len

    # Ids are never cut, because they are copied: a narrow terminal omits columns that repeat parts of the id.
    wide = shutil.get_terminal_size().columns >= _WIDE_COLUMNS
    columns = [column for column in _COLUMNS if wide or column not in _WIDE_ONLY]
    rows = [[_printable(entry.get(column)) for column in columns] for entry in entries]
    heads = [column.replace("_", " ") for column in columns]
    widths = [max(map(cell_len, (head, *cells))) for head, cells in zip(heads, zip(*rows, strict=True), strict=True)]

    def line(cells: list[str]) -> list[str]:
        return [cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]

    lines = ["  ".join(typer.style(head, bold=True) for head in line(heads))]
    status = columns.index("status")
    for entry, row in zip(entries, rows, strict=True):
        cells = line(row)
        cells[status] = typer.style(cells[status], fg=_STYLES.get(str(entry.get("status"))))
        lines.append("  ".join(cells).rstrip())
    typer.echo("\n".join(f" {text}" for text in lines))


def _printable(value: object) -> str:
    """A value as printable text: run files may come from others and must not send escape sequences."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(_printable, value)) or "-"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return "".join(letter if letter.isprintable() else "?" for letter in text)
