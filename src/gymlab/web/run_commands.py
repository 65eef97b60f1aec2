"""Stop, resume and evaluate a run from its page: requests to its process, and gymlab commands as child processes."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from gymlab.core.errors import UserError
from gymlab.core.types import JsonObject
from gymlab.process.child import Child, gymlab_command
from gymlab.process.environ import gymlab_environ
from gymlab.reports.run_facts import read_facts
from gymlab.reports.sections import rerun_command
from gymlab.runs.locks import lock_holder
from gymlab.runs.logs import strip_escapes
from gymlab.runs.paths import RunPaths
from gymlab.runs.requests import request_stop

_LONGEST_OUTPUT = 20_000
_REGISTERED = re.compile(r"(?:[A-Za-z0-9_]+/)?[A-Za-z0-9_-]+-v[0-9]+:[a-z0-9_-]+")


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    code: int
    text: str


def stop(paths: RunPaths) -> None:
    """Ask a run to stop after its update; UserError where it is not running."""
    owner = lock_holder(paths.lock)
    if owner is None:
        raise UserError(f"run '{paths.run_id}' is not running")
    request_stop(paths, owner)


async def resume(paths: RunPaths) -> CommandResult:
    """Resume a run in a process that outlives this server."""
    return await command(paths.root.parent, "resume", paths.run_id, "--detach")


async def evaluate(paths: RunPaths) -> CommandResult:
    """Evaluate the best checkpoint."""
    return await command(paths.root.parent, "eval", paths.run_id)


async def recipe_settings(paths: RunPaths, name: str) -> JsonObject:
    """The present settings of a run's recipe, by full key; {} where the recipe is not found.

    Only ids of registered envs are looked up: a run from a stranger must not make this machine import a module.
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
    """Run a gymlab command on these runs until it exits."""
    environ = gymlab_environ(runs_dir.absolute())
    child = Child(gymlab_command(*words), stdout="file", stderr="stdout", environ=environ)
    try:
        code = await asyncio.to_thread(child.wait)
    except asyncio.CancelledError:  # the server shuts down
        child.terminate()
        raise
    output = child.output_text()
    child.end()
    return CommandResult(code or 0, strip_escapes(output)[-_LONGEST_OUTPUT:])


def reproduce(paths: RunPaths) -> str:
    """The command that reproduces a run, from any folder."""
    words = shlex.split(rerun_command(read_facts(paths, {}, metrics=())))
    return shlex.join([str(paths.recipe.absolute()) if word == "recipe.yaml" else word for word in words])
