"""stop, wait and logs: runs that train somewhere else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gymlab.cli.options import Json, Timeout, print_json

if TYPE_CHECKING:
    from gymlab.runs.locks import Owner
    from gymlab.runs.paths import RunPaths

TIMED_OUT = 124  # as `timeout` has it
_POLL_SECONDS = 0.2
_EXIT_CODES = {"finished": 0, "failed": 1, "crashed": 1, "stopped": 143}

Run = Annotated[str | None, typer.Argument(metavar="[RUN]", help="Default: the newest running run.")]


def stop(
    run: Run = None,
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
        _show([paths], json=json, before="is not running: ")
        return
    how = request_stop(paths, owner)
    if not json:
        told = "told to stop" if how == "signal" else "asked by a file to stop, which it looks for after every update"
        typer.echo(f"{paths.run_id}: {owner} was {told}")
    if now and how == "signal":
        _insist(paths, owner)
    if not wait_for_release(paths, owner, timeout):
        typer.echo(f"{paths.run_id} still runs after {timeout:g} s: gymlab stop {paths.run_id} --now", err=True)
        raise typer.Exit(TIMED_OUT)
    _show([paths], json=json)


def wait(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Default: the newest running.")] = None,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Wait until runs have ended. Exit code 0 finished, 1 failed or crashed, 143 stopped, 124 not in time.

    Example: gymlab wait @last --timeout 3600
    """
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import select_run
    from gymlab.runs.status import read_status

    waited = [select_run(name, runs_folder()) for name in runs or ()] or [_current()]
    deadline = None if timeout is None else time.monotonic() + timeout
    while any(read_status(paths)["status"] == "running" for paths in waited):
        if deadline is not None and time.monotonic() > deadline:
            _show(waited, json=json)
            raise typer.Exit(TIMED_OUT)
        time.sleep(_POLL_SECONDS)
    _show(waited, json=json)
    codes = {_EXIT_CODES[read_status(paths)["status"]] for paths in waited}
    raise typer.Exit(1 if 1 in codes else max(codes))


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
    from gymlab.runs import logs as texts
    from gymlab.runs.selection import select_run
    from gymlab.runs.status import read_status

    paths = select_run(run, runs_folder()) if run else _current()

    def ended() -> bool:
        return not follow or bool(read_status(paths)["status"] != "running")

    shown = 0
    for line in texts.follow(paths, lines, ended):
        typer.echo(line)
        shown += 1
    if not shown and lines:
        typer.echo(f"{paths.run_id} has written no log", err=True)


def _current() -> RunPaths:
    """The newest running run, else the newest."""
    from gymlab.core.errors import UserError
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import newest_run

    root = runs_folder()
    found = newest_run(root, "running") or newest_run(root)
    if found is None:
        raise UserError(f"there are no runs in '{root}': gymlab train CartPole-v1")
    return found


def _insist(paths: RunPaths, owner: Owner) -> None:
    """A second signal, and where even that is not heard, the end."""
    import signal

    from gymlab.runs.requests import send_signal, wait_for_release

    for number, seconds in ((0, 0.3), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        if number:
            send_signal(owner, number)
        if wait_for_release(paths, owner, seconds):
            return


def _show(runs: list[RunPaths], *, json: bool, before: str = "") -> None:
    from gymlab.runs.logs import strip_escapes
    from gymlab.runs.status import read_status

    facts: list[dict[str, Any]] = []
    for paths in runs:
        status = read_status(paths)
        clock = status.get("clock")
        steps = clock.get("env_steps") if isinstance(clock, dict) else None
        facts.append({"run_id": paths.run_id, "status": status["status"], "stop_reason": status.get("stop_reason")})
        facts[-1]["env_steps"] = steps
        if json:
            continue
        because = f" ({status['stop_reason']})" if status.get("stop_reason") else ""
        typer.echo(strip_escapes(f"{paths.run_id} {before}{status['status']}{because} at {steps or 0} env_steps"))
        if status["status"] in ("stopped", "crashed"):
            typer.echo(f"next: gymlab resume {paths.run_id}")
    if json:
        print_json(facts)
