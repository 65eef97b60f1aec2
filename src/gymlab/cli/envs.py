"""`gymlab envs`: lists environments, shows one, and checks a custom one."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from gymlab.cli.options import Imports, Json

app = typer.Typer(no_args_is_help=True, help="List environments; check one of your own.")


@app.command("list")
def list_envs(
    query: Annotated[str, typer.Argument(help="Only ids that contain this.")] = "",
    json: Json = False,
) -> None:
    """List the environments that can be trained on.

    Example: gymlab envs list walker
    """
    from gymnasium.envs.registration import registry

    from gymlab.envs.registry import KNOWN_OPTIMA, known_ids, missing_extra

    rows: list[dict[str, Any]] = []
    for name in known_ids():
        if query.lower() in name.lower():
            spec = registry[name]
            rows.append(
                {
                    "id": name,
                    "max_episode_steps": spec.max_episode_steps,
                    "solved_at": spec.reward_threshold,
                    "optimum": KNOWN_OPTIMA.get(name),
                    "needs": missing_extra(spec),
                }
            )
    if json:
        typer.echo(json_module.dumps(rows))
        return
    if not rows:
        typer.echo(f"no environment is called like '{query}'")
        return
    _print_table(rows)
    typer.echo(f"Train one with: gymlab train {next((row['id'] for row in rows if not row['needs']), rows[0]['id'])}")


@app.command()
def show(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Id-v0, module:Id-v0, module:Class or ./file.py:Class")],
    json: Json = False,
) -> None:
    """Print what an environment takes and gives: actions, observations, bounds, limits, recipes and links.

    Example: gymlab envs show LunarLander-v3
    """
    from gymlab.envs.card import env_card
    from gymlab.recipes.resolve import resolve, variants_of

    found = {**env_card(resolve(env).recipe.env), "variants": variants_of(env)}
    typer.echo(json_module.dumps(found) if json else "\n".join(_sheet_lines(found, env)))


@app.command()
def check(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Id-v0, module:Id-v0, module:Class or ./file.py:Class")],
    kwargs: Annotated[str, typer.Option("--kwargs", metavar="JSON", help="Handed to the env.")] = "{}",
    imports: Imports = None,
    json: Json = False,
) -> None:
    """Find out what is wrong with an environment and how to put it right.

    Example: gymlab envs check my_envs:Maze-v0
    """
    from gymlab.core.errors import UserError
    from gymlab.envs.check import check_env
    from gymlab.envs.make import import_all

    try:
        env_kwargs = json_module.loads(kwargs)
    except ValueError as error:
        raise UserError(f"--kwargs {kwargs!r} is no JSON: {error}") from error
    if not isinstance(env_kwargs, dict):
        raise UserError(f"--kwargs {kwargs!r} must be a JSON object such as '{{\"size\": 5}}'")
    import_all(tuple(imports or ()))
    findings = check_env(env, env_kwargs)
    errors = sum(finding.level == "error" for finding in findings)
    if json:
        typer.echo(json_module.dumps({"env": env, "ok": not errors, "findings": [f._asdict() for f in findings]}))
    else:
        for finding in findings:
            colour = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "error": typer.colors.RED}[finding.level]
            typer.echo(f"{typer.style(f'{finding.level:<5}', fg=colour)} {finding.title}: {finding.detail}")
            if finding.fix:
                typer.echo(f"      fix: {finding.fix}")
        todo = f"Put {errors} error{'s' * (errors > 1)} right, then run again: gymlab envs check {env}"
        typer.echo(todo if errors else f"Next: gymlab train {env}")
    raise typer.Exit(1 if errors else 0)


def _sheet_lines(found: dict[str, Any], env: str) -> Iterator[str]:
    for key in ("id", "max_episode_steps", "solved_at", "optimum"):
        if found[key] is not None:
            yield f"{key:<18} {found[key]}"
    yield f"renders            {'yes' if found['renders'] else 'no'}"
    for key in ("actions", "observations"):
        yield key
        for row in found[key]:
            ends = ["none" if row[end] is None else f"{row[end]:g}" for end in ("low", "high") if end in row]
            yield f"  {row['kind']:<10} {row['label']:<26} {' to '.join(ends)}".rstrip()
    yield from (f"train              gymlab train {env}:{variant}" for variant in found["variants"])
    yield from (f"read               {link}" for link in found["links"])


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("id", "time limit", "solved at", "optimum", "needs"):
        table.add_column(column, justify="left" if column in ("id", "needs") else "right", no_wrap=True)
    for row in rows:
        numbers = ("" if row[key] is None else f"{row[key]:g}" for key in ("max_episode_steps", "solved_at", "optimum"))
        table.add_row(row["id"], *numbers, f"gymlab[{row['needs']}]" if row["needs"] else "", style=None)
    Console(markup=False).print(table)
