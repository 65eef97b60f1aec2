"""--detach: starts this command again as a background process and returns when its run trains."""

from __future__ import annotations

import json as json_module
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from gymlab.process.child import Child
    from gymlab.runs.paths import RunPaths

MARK = "--in-background"  # hidden option of the background process; its value is the number of words inserted after it
_POLL_SECONDS = 0.05


def detach_new(root: Path, run_id: str | None, name: str, more: Sequence[str] = (), *, json: bool) -> None:
    """Start a new run in the background. Its id is chosen here, so that its folder is known."""
    from gymlab.core.errors import UserError
    from gymlab.runs.paths import new_run_id, run_paths

    paths = run_paths(root, run_id or new_run_id(name))
    if paths.root.exists():
        raise UserError(f"run id '{paths.run_id}' exists already: choose another")
    run_detached(paths, ["--run-id", paths.run_id, *more], json=json)


def detach_again(paths: RunPaths, which: str, run_id: str | None, more: Sequence[str], *, json: bool) -> None:
    """Resume a run in the background, or fork a new one from an earlier checkpoint."""
    from gymlab.runs.checkpoints import read_index
    from gymlab.runs.manifest import read_manifest

    if which in ("last", read_index(paths)["last"]):
        run_detached(paths, more, json=json)
    else:
        detach_new(paths.root.parent, run_id, str(read_manifest(paths).get("recipe")), more, json=json)


def run_detached(paths: RunPaths, more: Sequence[str], *, json: bool) -> None:
    """Start this command again as a process that trains in `paths`; returns when it trains.

    `more` is inserted after the command's name. If the run does not start, its output and exit code become ours.
    """
    from gymlab.runs.logs import console_log
    from gymlab.runs.paths import prepare_runs_folder

    prepare_runs_folder(paths.root.parent)
    # A new run's folder does not exist yet: the output goes to a file beside it, which is moved in later.
    waiting = None if paths.exists else paths.root.with_name(f".{paths.run_id}.console.log")
    output = waiting or console_log(paths)
    child, began = _start(output, more)
    try:
        started = _await(child, paths)
    except BaseException:  # also KeyboardInterrupt: no process may be left behind
        child.terminate()
        child.wait()
        if waiting is not None:
            waiting.unlink()
        raise
    if waiting is not None and _move(waiting, console_log(paths)):
        output = console_log(paths)
    code = child.poll()
    if not started or code:
        _relay(output, began, code or 0)
    child.release()
    _print_started(paths, child.pid, json=json)


def _start(output: Path, more: Sequence[str]) -> tuple[Child, int]:
    from gymlab.process.child import Child, gymlab_command
    from gymlab.runs.logs import open_append

    name, *rest = sys.argv[1:]
    command = gymlab_command(name, MARK, str(len(more)), *more, *rest)
    fd = open_append(output)
    try:
        began = os.fstat(fd).st_size
        return Child(command, stdout=fd, stderr=fd, session="detached"), began
    finally:
        os.close(fd)


def _await(child: Child, paths: RunPaths) -> bool:
    """Wait until the run has started; False if the process ended first."""
    from gymlab.runs.status import read_record

    while True:
        code = child.poll()
        if read_record(paths.status).get("pid") == child.pid:
            return True
        if code is not None:
            return False
        time.sleep(_POLL_SECONDS)


def _move(waiting: Path, target: Path) -> bool:
    try:
        os.rename(waiting, target)
    except OSError:  # the run did not start, or Windows, which cannot rename an open file
        return False
    return True


def _relay(output: Path, began: int, code: int) -> None:
    """Print the output of a process that has ended, and exit with its code."""
    from gymlab.runs.logs import strip_escapes

    with output.open("rb") as file:
        file.seek(began)
        text = strip_escapes(file.read().decode(errors="replace"))
    if output.name.startswith("."):
        output.unlink()
    typer.echo(text, err=bool(code), nl=False)
    raise typer.Exit(code)


def _print_started(paths: RunPaths, pid: int, *, json: bool) -> None:
    if json:
        typer.echo(json_module.dumps({"run_id": paths.run_id, "run_dir": str(paths.root), "pid": pid}))
        return
    typer.echo(f"{paths.run_id} runs in the background (pid {pid})")
    for command in ("logs -f", "stop", "wait"):
        typer.echo(f"  gymlab {command} {paths.run_id}")


def typed_command() -> tuple[str, ...]:
    """The command line as the user typed it."""
    argv = sys.argv
    if MARK not in argv:
        return tuple(argv)
    mark = argv.index(MARK)
    return (*argv[:mark], *argv[mark + 2 + int(argv[mark + 1]) :])


def redact_output() -> None:
    """Redact secrets from all output of this process, because it becomes a file."""
    from gymlab.runs.redact import redact_output as redact

    redact(typed_command())
