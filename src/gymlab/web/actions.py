"""What the buttons do. Runs are asked, never reached into; what needs JAX is a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from gymlab.core.errors import UserError
from gymlab.runs.locks import lock_holder
from gymlab.runs.logs import strip_escapes
from gymlab.runs.paths import RunPaths
from gymlab.runs.requests import request_stop

_LONGEST_OUTPUT = 20_000
_REGISTERED = re.compile(r"(?:[A-Za-z0-9_]+/)?[A-Za-z0-9_-]+-v[0-9]+:[a-z0-9_-]+")


class CommandResult(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    text: str


def stop(paths: RunPaths) -> None:
    """Ask a run to stop after its update; UserError where it is not running."""
    owner = lock_holder(paths.lock)
    if owner is None:
        raise UserError(f"run '{paths.run_id}' is not running")
    request_stop(paths, owner)


async def resume(paths: RunPaths) -> CommandResult:
    """Go on with a run, in a process that outlives this server."""
    return await command(paths.root.parent, "resume", paths.run_id, "--detach")


async def evaluate(paths: RunPaths) -> CommandResult:
    """Score the best checkpoint."""
    return await command(paths.root.parent, "eval", paths.run_id)


async def recipe_settings(paths: RunPaths, name: str) -> dict[str, Any]:
    """What a run's recipe says today, by full key; {} where there is none.

    Only ids of registered envs are looked up: a name that leads to a module would run what a run from strangers wants.
    """
    if not _REGISTERED.fullmatch(name):
        return {}
    done = await command(paths.root.parent, "config", "show", name, "--json")
    lines = [line for line in done.text.splitlines() if line.startswith("{")]
    try:
        from gymlab.recipes.keys import flat_settings_in_file

        return flat_settings_in_file(json.loads(lines[-1])["recipe"]) if done.code == 0 else {}
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        return {}


async def command(runs_dir: Path, *words: str) -> CommandResult:
    """A gymlab command on these runs, to its end."""
    environment = {**os.environ, "GYMLAB_RUNS": str(runs_dir.absolute()), "NO_COLOR": "1", "COLUMNS": "100"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gymlab",
        *words,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        out, _ = await process.communicate()
    except asyncio.CancelledError:  # the server ends
        process.terminate()
        raise
    return CommandResult(process.returncode or 0, strip_escapes(out.decode(errors="replace"))[-_LONGEST_OUTPUT:])
