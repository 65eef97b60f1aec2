"""`gymlab stop`: asks a run in another process to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import TIMED_OUT, Json
from gymlab.cli.wait import print_status

if TYPE_CHECKING:
    from gymlab.runs.locks import Owner
    from gymlab.runs.paths import RunPaths


def stop(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Default: the newest running run.")] = None,
    timeout: Annotated[float, typer.Option(metavar="S", min=0, help="Seconds to wait for its end.")] = 30.0,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for a checkpoint: the last one has to do.")] = False,
    json: Json = False,
) -> None:
    """Ask a run to stop: it finishes its update, writes a checkpoint and ends. Exit code 124 if it did not in time.

    Example: gymlab stop cartpole-v1-ppo-20261115
    """
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.locks import lock_holder
    from gymlab.runs.requests import request_stop, wait_for_release
    from gymlab.runs.selection import newest_run, select_run

    root = runs_folder()
    paths = select_run(run, root) if run else newest_run(root, "running")
    if paths is None:
        typer.echo("[]" if json else f"no run is running in '{root}'")
        return
    owner = lock_holder(paths.lock)
    if owner is None:
        print_status([paths], json=json, before="is not running: ")
        return
    how = request_stop(paths, owner)
    if not json:
        request = "was told to stop" if how == "signal" else "reads the request to stop after its current update"
        typer.echo(f"{paths.run_id}: {owner} {request}")
    if now and how == "signal":
        _kill(paths, owner)
    if not wait_for_release(paths, owner, timeout):
        typer.echo(f"{paths.run_id} still runs after {timeout:g} s: gymlab stop {paths.run_id} --now", err=True)
        raise typer.Exit(TIMED_OUT)
    print_status([paths], json=json)


def _kill(paths: RunPaths, owner: Owner) -> None:
    """Send SIGTERM again, then SIGKILL, until the run releases its lock."""
    import signal

    from gymlab.runs.requests import send_signal, wait_for_release

    for number, seconds in ((0, 0.3), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        if number:
            send_signal(owner, number)
        if wait_for_release(paths, owner, seconds):
            return
