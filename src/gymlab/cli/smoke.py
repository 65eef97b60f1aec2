"""`gymlab smoke`: does every recipe train, evaluate, save, resume and play on this machine?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gymlab.cli.options import JsonOnStdout, print_json
from gymlab.session.run_guard import guard_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from gymlab.campaigns.smoke.smoke_test import RecipeCheck, SmokeTest

_COLUMNS = ("trained", "evaluated", "saved", "resumed", "played")
_WIDTH = 13


def smoke(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE ...]", help="Recipes, envs or patterns such as '*:a2c'; default: all."),
    ] = None,
    family: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only envs of this kind, e.g. box2d; may be given again.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Recipes at a time; default: one per core, at most 4.", min=1)
    ] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Most that one recipe may take.", min=1)] = 300,
    json: JsonOnStdout = False,
) -> None:
    """Put every recipe, yours in ./recipes too, through 2 updates, an evaluation, save, resume and 20 steps of play.

    Each has a process and a temporary folder of its own. What comes out of a resume is compared byte for byte with the
    run that was left alone. Exit code 1 where a recipe fails; one that needs a package you do not have is skipped.

    Example: gymlab smoke --family classic_control
    """
    from rich.console import Console

    from gymlab.campaigns.smoke.candidates import choose_candidates
    from gymlab.campaigns.smoke.smoke_test import SmokeTest
    from gymlab.core.errors import UserError
    from gymlab.runs.platform import usable_cores

    chosen = choose_candidates(recipes or (), family or ())
    if not chosen:
        raise UserError("no recipe is both of these names and of these families")
    console = Console(stderr=json, markup=False, highlight=False, soft_wrap=True)
    with guard_command("before all were done"), SmokeTest(chosen, jobs or min(4, usable_cores()), timeout) as test:
        _watch(test, console, max(len(found.reference) for found in chosen))
    statuses = {"passed": "ok", "failed": "failed", "skipped": "skipped"}
    count = {name: sum(v.status == status for v in test.checks) for name, status in statuses.items()}
    if json:
        print_json({"ok": not count["failed"], **count, "recipes": [asdict(v) for v in test.checks]})
    else:
        console.print(", ".join(f"{number} {status}" for status, number in count.items()))
        console.print(
            "next: mend what failed, then run the line after `reproduce` again"
            if count["failed"]
            else f"next: gymlab train {chosen[0].reference}"
        )
    raise typer.Exit(1 if count["failed"] else 0)


def _watch(test: SmokeTest, console: Console, width: int) -> None:
    """Print a line per finished recipe; on a terminal a live table shows the running ones below."""
    from rich.live import Live

    console.print(_row("recipe", _COLUMNS, "seconds", width))
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        for check in test.run():
            running = [_shown(v, width) for v in test.checks if v.status == "running"]
            left = sum(not v.over for v in test.checks)
            live.update("\n".join([*running, f"{len(test.checks) - left} of {len(test.checks)}"]))
            if check is not None and check.over:
                for line in _lines(check, width):
                    live.console.print(line, style=_STYLES.get(check.status))


_STYLES = {"failed": "red", "skipped": "yellow"}


def _lines(check: RecipeCheck, width: int) -> Iterator[str]:
    yield _shown(check, width)
    if check.status == "failed":
        first, *more = check.reason.splitlines()
        yield f"  {check.stage or 'after all stages'}: {first}"
        yield from (f"  {line}" for line in more[-8:])
        yield f"  reproduce: {check.reproduce}"
    elif check.status == "skipped":
        yield f"  {check.reason}"


def _shown(check: RecipeCheck, width: int) -> str:
    blank: Any = {"skipped": "skipped", "failed": "-"}.get(check.status, "...")
    cells = [check.stages.get(stage, blank) for stage in _COLUMNS]
    if check.status == "failed" and check.stage:
        cells[_COLUMNS.index(check.stage)] = "FAILED"
    return _row(check.recipe, cells, f"{check.seconds:.1f}" if check.over else "", width)


def _row(name: str, cells: Any, seconds: str, width: int) -> str:
    return f"{name:<{width}}  {''.join(f'{cell:<{_WIDTH}}' for cell in cells)}{seconds:>7}".rstrip()
