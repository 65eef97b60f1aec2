"""`gymlab explain`: what a name means."""

from __future__ import annotations

from typing import Annotated

import typer


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A metric or a setting, e.g. opt/approx_kl.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a metric or a setting is, its bounds, what is healthy and what changes it.

    Example: gymlab explain opt/explained_variance
    """
    from gymlab.runs.files import strict_json
    from gymlab.session.explain import explain as ask

    found = ask(name)
    if as_json:
        typer.echo(strict_json([explanation._asdict() for explanation in found]))
    else:
        typer.echo("\n\n".join(explanation.text() for explanation in found))
