"""`gymlab logs`: the end of a run's log."""

from __future__ import annotations

from typing import Annotated

import typer

from gymlab.cli.targets import current_run


def logs(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Default: the newest running, else newest.")
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Show new lines until the run ends.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many of the last lines.")] = 20,
) -> None:
    """Show the end of a run's log.

    Example: gymlab logs -f @last
    """
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.logs import follow as follow_log
    from gymlab.runs.selection import select_run
    from gymlab.runs.status import read_status

    paths = select_run(run, runs_folder()) if run else current_run()

    def ended() -> bool:
        return not follow or bool(read_status(paths)["status"] != "running")

    count = 0
    for line in follow_log(paths, lines, ended):
        typer.echo(line)
        count += 1
    if not count and lines:
        typer.echo(f"{paths.run_id} has written no log", err=True)
