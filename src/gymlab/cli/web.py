"""`gymlab web` and `gymlab inspect`: the pages in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gymlab.cli.options import RunArgument, TableSampled, TableSeed
from gymlab.core.errors import UserError

Host = Annotated[str, typer.Option(help="Address to listen at; beyond 127.0.0.1 a token is demanded.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
Token = Annotated[
    str | None, typer.Option(envvar="GYMLAB_WEB_TOKEN", help="What the address must hold, once, to be let in.")
]
Open = Annotated[bool, typer.Option("--open/--no-open", help="Open the browser.")]


def web(host: Host = "127.0.0.1", port: Port = 0, token: Token = None, open_browser: Open = True) -> None:
    """Watch, compare and control runs in the browser: a local page that reads the runs folder.

    Example: gymlab web
    """
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.web.server import serve

    serve(runs_folder(), host=host, port=port, token=token, open_browser=open_browser, say=typer.echo)


def inspect(
    run: RunArgument = "@last",
    host: Host = "127.0.0.1",
    port: Port = 0,
    token: Token = None,
    open_browser: Open = True,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the episode's table and open nothing.")
    ] = None,
    seed: TableSeed = None,
    sampled: TableSampled = False,
) -> None:
    """Walk through an episode of a run's policy in the browser: what it saw, did, expected and got.

    Example: gymlab inspect @last
    """
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_checkpoint, select_run

    if csv is not None:
        from gymlab.media.record_episode import export_table

        steps = export_table(*select_checkpoint(run, runs_folder(), default="best"), csv, seed=seed, sampled=sampled)
        typer.echo(f"{steps} steps written to {csv}")
        return
    if seed is not None or sampled:
        raise UserError("--seed and --sampled are of --csv FILE: on the page they are chosen there")
    from gymlab.web.server import serve

    paths = select_run(run, runs_folder())
    target = f"/inspect/{paths.run_id}"
    serve(paths.root.parent, host=host, port=port, token=token, open_browser=open_browser, path=target, say=typer.echo)
