"""`gymlab next-steps`: a prompt that asks for what to learn next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gymlab.cli.options import Json


def next_steps(
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write it here; default: print it.")
    ] = None,
    json: Json = False,
) -> None:
    """Print a prompt with what was reached, the gaps against published scores and what went wrong.

    Example: gymlab next-steps --output next-steps.md
    """
    from gymlab.campaigns.next_steps import next_steps as write
    from gymlab.core.errors import UserError
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.runs import files

    text = write(runs_folder())
    if output is not None:
        try:
            files.write_text(output, text)
        except OSError as error:
            raise UserError(f"cannot write '{output}': {error.strerror}") from error
    if json:
        typer.echo(files.strict_json({"path": None if output is None else str(output), "text": text}))
    else:
        typer.echo(text if output is None else f"prompt of {len(text)} letters: {output}", nl=output is not None)
