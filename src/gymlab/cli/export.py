"""`gymlab export`: a run as a web page, or one of its episodes as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gymlab.cli.options import TableSampled, TableSeed


def export(
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="RUN[/CHECKPOINT].")] = "@last",
    path: Annotated[Path | None, typer.Argument(metavar="[PATH]", help="The page's file.")] = None,
    html: Annotated[
        bool, typer.Option("--html", help="One self-contained page: episodes to step through, small envs live.")
    ] = False,
    table: Annotated[Path | None, typer.Option(metavar="PATH", help="One episode, step by step, as CSV.")] = None,
    seed: TableSeed = None,
    sampled: TableSampled = False,
) -> None:
    """Export a run: as a web page that needs no network, or an episode as a CSV table.

    Example: gymlab export @last --html replay.html
    """
    from gymlab.core.errors import UserError
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_checkpoint
    from gymlab.runs.videos import best_clip

    if not html and table is None:
        raise UserError("what to export? --html (a web page) or --table PATH (an episode as CSV)")
    paths, which = select_checkpoint(run, runs_folder(), default="best")
    from gymlab.media.record_episode import export_table
    from gymlab.media.replay_page import export_html

    if table is not None:
        steps = export_table(paths, which, table, seed=seed, sampled=sampled)
        typer.echo(f"{steps} steps written to {table}")
    if html:
        target = path or paths.root / "replay.html"
        contents = export_html(paths, which, target)
        best = best_clip(paths)
        if best is not None:
            typer.echo(f"film: {best.path}")
        typer.echo(f"page with {' and '.join(contents)}: {target}")
