"""Which recipe or run a command means, also where it names none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from gymlab.recipes.resolve import Resolved
    from gymlab.runs.groups import Group


class Sought(NamedTuple):
    """A recipe as the command line names it."""

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


def only_recipe() -> str:
    """A bare `gymlab train` runs the recipe in ./recipes, if there is exactly one."""
    from gymlab.core.errors import UserError
    from gymlab.recipes.resolve import user_files

    found = user_files()
    if len(found) == 1:
        return str(found[0])
    told = f"there are {len(found)} in ./recipes" if found else "there is none in ./recipes"
    raise UserError(f"which recipe? {told}: name one, e.g. `gymlab train CartPole-v1:ppo`")


def newest_interrupted() -> str | None:
    """The run that a bare `gymlab resume` goes on with; says what to do where there is none."""
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


def group_named(name: str) -> Group | None:
    """The group of runs of that name; a run of the same name comes first."""
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs.groups import read_group
    from gymlab.runs.paths import RunPaths, valid_run_id

    root = runs_folder()
    return None if not valid_run_id(name) or RunPaths(root / name).exists else read_group(root, name)
