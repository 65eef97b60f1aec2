"""`gymlab wait`: waits until runs in other processes have ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gymlab.cli.options import TIMED_OUT, Json, Timeout, print_json
from gymlab.cli.targets import current_run

if TYPE_CHECKING:
    from gymlab.runs.paths import RunPaths

_POLL_SECONDS = 0.2
_EXIT_CODES = {"finished": 0, "failed": 1, "crashed": 1, "stopped": 143}


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

    waited = [select_run(name, runs_folder()) for name in runs or ()] or [current_run()]
    deadline = None if timeout is None else time.monotonic() + timeout
    while any(read_status(paths)["status"] == "running" for paths in waited):
        if deadline is not None and time.monotonic() > deadline:
            print_status(waited, json=json)
            raise typer.Exit(TIMED_OUT)
        time.sleep(_POLL_SECONDS)
    print_status(waited, json=json)
    codes = {_EXIT_CODES[read_status(paths)["status"]] for paths in waited}
    raise typer.Exit(1 if 1 in codes else max(codes))


def print_status(runs: list[RunPaths], *, json: bool, before: str = "") -> None:
    """Print the status, stop reason and steps of runs; `before` precedes the status."""
    from gymlab.runs.logs import strip_escapes
    from gymlab.runs.status import read_status

    facts: list[dict[str, Any]] = []
    for paths in runs:
        status = read_status(paths)
        clock = status.get("clock")
        steps = clock.get("env_steps") if isinstance(clock, dict) else None
        reason = status.get("stop_reason")
        facts.append({"run_id": paths.run_id, "status": status["status"], "stop_reason": reason, "env_steps": steps})
        if json:
            continue
        because = f" ({reason})" if reason else ""
        typer.echo(strip_escapes(f"{paths.run_id} {before}{status['status']}{because} at {steps or 0} env_steps"))
        if status["status"] in ("stopped", "crashed"):
            typer.echo(f"next: gymlab resume {paths.run_id}")
    if json:
        print_json(facts)
