"""What the buttons do. Runs are asked, never reached into; what needs JAX is a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import NamedTuple

from gymlab.core.errors import UserError
from gymlab.runs.control import ask_to_stop
from gymlab.runs.lock import lock_holder
from gymlab.runs.logs import plain
from gymlab.runs.paths import RunPaths

_LONGEST_OUTPUT = 20_000


class Done(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    text: str


def stop(paths: RunPaths) -> None:
    """Ask a run to stop after its update; UserError where it is not running."""
    owner = lock_holder(paths.lock)
    if owner is None:
        raise UserError(f"run '{paths.run_id}' is not running")
    ask_to_stop(paths, owner)


async def resume(paths: RunPaths) -> Done:
    """Go on with a run, in a process that outlives this server."""
    return await command(paths.root.parent, "resume", paths.run_id, "--detach")


async def evaluate(paths: RunPaths) -> Done:
    """Score the best checkpoint."""
    return await command(paths.root.parent, "eval", paths.run_id)


async def command(runs_dir: Path, *words: str) -> Done:
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
    return Done(process.returncode or 0, plain(out.decode(errors="replace"))[-_LONGEST_OUTPUT:])
