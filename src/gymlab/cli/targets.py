"""Resolves the recipe or run that a command names, and the default where it names none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from gymlab.recipes.resolve import Resolved
    from gymlab.runs.groups import Group
    from gymlab.runs.paths import RunPaths


class RecipeArguments(NamedTuple):
    """A recipe and what the command line changes about it."""

    reference: str
    overrides: list[str]
    sets: list[str]
    budget: str | None
    engine: str | None
    device: str | None
    imports: list[str]

    def resolve(self) -> Resolved:
        from gymlab.recipes.resolve import resolve

        options = self._asdict()
        return resolve(options.pop("reference"), options.pop("overrides"), **options)

    def arguments(self) -> list[str]:
        """The arguments of `gymlab train` that name the same recipe."""
        arguments = [self.reference, *self.overrides]
        for option, values in (("--set", self.sets), ("--import", self.imports)):
            arguments += [word for value in values for word in (option, value)]
        for option, value in (("--budget", self.budget), ("--engine", self.engine), ("--device", self.device)):
            arguments += [option, value] if value is not None else []
        return arguments


def only_recipe() -> str:
    """The recipe of a bare `gymlab train`: the one in ./recipes, if there is exactly one."""
    from gymlab.core.errors import UserError
    from gymlab.recipes.resolve import user_files

    found = user_files()
    if len(found) == 1:
        return str(found[0])
    count = f"there are {len(found)} in ./recipes" if found else "there is none in ./recipes"
    raise UserError(f"which recipe? {count}: name one, e.g. `gymlab train CartPole-v1:ppo`")


def newest_interrupted() -> str | None:
    """The run of a bare `gymlab resume`; if there is none, prints what to do instead."""
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.checkpoints import steps
    from gymlab.runs.selection import newest_run

    root = runs_folder()
    found = newest_run(root, "stopped", "crashed", having=steps)
    if found is not None:
        return found.run_id
    newest = newest_run(root)
    hint = f"extend one with `gymlab resume {newest.run_id} --budget N`" if newest else "`gymlab train CartPole-v1`"
    typer.echo(f"no interrupted run in '{root}': {hint}")
    return None


def current_run() -> RunPaths:
    """The run of a bare `gymlab wait` or `gymlab logs`: the newest running one, else the newest."""
    from gymlab.core.errors import UserError
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.selection import newest_run

    root = runs_folder()
    found = newest_run(root, "running") or newest_run(root)
    if found is None:
        raise UserError(f"there are no runs in '{root}': gymlab train CartPole-v1")
    return found


def group_named(name: str) -> Group | None:
    """The group of runs of that name; a run of the same name has precedence."""
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.groups import read_group
    from gymlab.runs.paths import RunPaths, valid_run_id

    root = runs_folder()
    return None if not valid_run_id(name) or RunPaths(root / name).exists else read_group(root, name)
