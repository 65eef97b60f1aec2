"""`gymlab init`: a commented recipe to start from."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer

from gymlab.cli.options import Imports, Json


def init(
    recipe: Annotated[str, typer.Argument(metavar="ENV", help="ENV[:VARIANT]")],
    imports: Imports = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: Json = False,
) -> None:
    """Write ./recipes/ENV.yaml: the settings that would be used, each explained, ready to edit.

    Example: gymlab init CartPole-v1
    """
    from gymlab.recipes.resolve import resolve
    from gymlab.recipes.write import write_starter

    resolved = resolve(recipe, imports=imports or ()).recipe
    path = write_starter(resolved, force=force)
    label = resolved.name
    if json:
        typer.echo(json_module.dumps({"path": str(path), "recipe": label}))
        return
    typer.echo(f"wrote {path}")
    typer.echo(f"next: edit it, then gymlab train {label}")
