"""`gymlab explain`: what a name means."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated

import typer

from gymlab.cli.options import Json, print_json

if TYPE_CHECKING:
    from gymlab.core.explanation import Explanation

# Modules that implement gymlab.core.explanation.ExplanationSource, asked in this order.
SOURCES = ("gymlab.metrics.explain", "gymlab.alerts.explain", "gymlab.recipes.keys", "gymlab.envs.explain_wrappers")


def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A metric or a setting, e.g. opt/approx_kl.")],
    json: Json = False,
) -> None:
    """Say what a metric or a setting is, its bounds, what is healthy and what changes it.

    Example: gymlab explain opt/explained_variance
    """

    found = find_explanations(name)
    if json:
        print_json([explanation._asdict() for explanation in found])
    else:
        typer.echo("\n\n".join(explanation.text() for explanation in found))


def find_explanations(name: str) -> list[Explanation]:
    """The explanations of a name in all sources; UserError with the nearest name if there is none."""
    from gymlab.core.errors import UserError, suggestion

    sources = [importlib.import_module(source) for source in SOURCES]
    found = [explanation for source in sources for explanation in source.explain(name)]
    if not found:
        known = [other for source in sources for other in source.names()]
        raise UserError(f"nothing is called {name[:80]!r}: {suggestion(name[:80], known)}")
    return found
