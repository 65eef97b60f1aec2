"""`gymlab eject`: a recipe as one Python file that needs no gymlab."""

from __future__ import annotations

import typer

from gymlab.cli.options import Imports, OverridesArgument, RecipeArgument, RunBudget, Sets


def eject(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    budget: RunBudget = None,
    sets: Sets = None,
    imports: Imports = None,
) -> None:
    """Print one readable Python file that trains a recipe without gymlab, to the same weights.

    For ppo, a2c and reinforce on an env with a compiled port. Example: gymlab eject CartPole-v1:ppo > ppo.py
    """
    from gymlab.hub.eject import eject as write
    from gymlab.recipes.resolve import resolve

    resolved = resolve(recipe, overrides or (), sets=sets or (), budget=budget, imports=imports or ())
    typer.echo(write(resolved.recipe, _command(recipe, [*(overrides or ()), *(sets or ())], budget)), nl=False)


def _command(recipe: str, overrides: list[str], budget: str | None) -> str:
    """The arguments that name the recipe, as they were typed."""
    import shlex

    return shlex.join([recipe, *overrides, *([] if budget is None else ["--budget", budget])])
