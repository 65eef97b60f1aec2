"""`gymlab config`: look at, check and tidy recipes and settings."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from gymlab.cli.options import Imports, Json, OverridesArgument, RecipeArgument, Sets

app = typer.Typer(no_args_is_help=True, help="Show, check and format recipes; show settings.")


@app.command()
def show(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    sets: Sets = None,
    imports: Imports = None,
    json: Json = False,
) -> None:
    """Print a recipe with every value decided.

    Example: gymlab config show CartPole-v1:ppo learning_rate=1e-3
    """
    from gymlab.recipes.problems import display_path
    from gymlab.recipes.resolve import resolve
    from gymlab.recipes.write import dump_recipe, file_mapping

    resolved = resolve(recipe, overrides or (), sets=sets or (), imports=imports or ())
    source = None if resolved.source is None else display_path(resolved.source)
    if json:
        found: dict[str, Any] = {"name": resolved.recipe.name, "source": source, "notes": resolved.notes}
        found |= {"solved_at_source": resolved.solved_at_source, "recipe": file_mapping(resolved.recipe)}
        typer.echo(json_module.dumps(found))
        return
    typer.echo(f"# {resolved.recipe.name} from {source or 'defaults'}")
    for note in resolved.notes:
        typer.echo(f"# note: {note}")
    typer.echo(dump_recipe(resolved.recipe), nl=False)


@app.command()
def check(
    files: Annotated[list[Path] | None, typer.Argument(help="Recipe files; default: ./recipes/*.yaml")] = None,
    json: Json = False,
) -> None:
    """Check every variant of recipe files and list all problems.

    Example: gymlab config check recipes/CartPole-v1.yaml
    """
    from gymlab.core.errors import UserError
    from gymlab.recipes.resolve import check_file, user_files

    results = []
    faults = []
    for path in files or user_files():
        try:
            notes = check_file(path)
            problems = ""
        except UserError as error:
            notes = []
            problems = str(error)
            faults.append(problems)
        results.append({"file": str(path), "problems": problems.splitlines(), "notes": notes})
        if not json and not problems:
            typer.echo("\n".join([f"ok: {path}", *(f"note: {note}" for note in notes)]))
    if json:
        typer.echo(json_module.dumps({"files": results}))
        raise typer.Exit(2 if faults else 0)
    if faults:
        raise UserError("\n".join(faults))
    if not results:
        typer.echo("nothing to check: there is no recipe in ./recipes (gymlab init ENV writes one)")


@app.command()
def fmt(
    files: Annotated[list[Path] | None, typer.Argument(help="Recipe files; default: ./recipes/*.yaml")] = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if a file is out of order.")] = False,
) -> None:
    """Put the keys of recipe files into canonical order; comments stay.

    Example: gymlab config fmt recipes/*.yaml
    """
    from gymlab.recipes.resolve import user_files
    from gymlab.recipes.write import format_recipe_file

    changed = [path for path in files or user_files() if format_recipe_file(path, write=not check)]
    for path in changed:
        typer.echo(f"{'out of order' if check else 'formatted'}: {path}")
    raise typer.Exit(1 if check and changed else 0)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a recipe file, for editors.

    Example: gymlab config schema > recipe.schema.json
    """
    from gymlab.recipes.keys import recipe_file_schema

    typer.echo(json_module.dumps(recipe_file_schema(), indent=2))


@app.command()
def where(json: Json = False) -> None:
    """Show every setting of gymlab.toml and where its value came from.

    Example: gymlab config where
    """
    from gymlab.recipes.project_settings import all_settings as settings

    if json:
        typer.echo(json_module.dumps([setting._asdict() for setting in settings()]))
        return
    for key, value, source in settings():
        if isinstance(value, dict):
            value = [f"{recipe}: {' '.join(texts)}" for recipe, texts in value.items()]
        shown = ", ".join(value) or "none" if isinstance(value, list) else value
        typer.echo(f"{key:<16}{shown}  ({source})")
