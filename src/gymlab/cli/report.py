"""`gymlab report`: a run's report, made from its folder at any time."""

from __future__ import annotations

from typing import Annotated

import typer

from gymlab.cli.options import Json, RunArgument


def report(
    run: RunArgument = "@last",
    write: Annotated[bool, typer.Option("--write", help="Also replace report.md and report.json in the run.")] = False,
    json: Json = False,
) -> None:
    """Print the report of a run: result, score, curves, settings, time and how to make it again.

    Example: gymlab report @last
    """
    from gymlab.recipes.keys import default_settings, read_settings
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.reports.report import build_report, known_bounds, write_report
    from gymlab.reports.run_facts import read_facts
    from gymlab.runs.files import strict_json
    from gymlab.runs.selection import select_run

    paths = select_run(run, runs_folder())
    settings = read_settings(paths.inside(paths.recipe))
    facts = read_facts(paths, settings)
    made = build_report(facts, default_settings(settings, of_algorithm=True), known_bounds(facts))
    if write:
        write_report(paths, made)
    typer.echo(strict_json(made.data) if json else made.markdown, nl=json)
