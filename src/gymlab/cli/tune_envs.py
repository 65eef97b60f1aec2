"""`gymlab tune-envs`: which engine and how many envs are fastest for a recipe on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gymlab.cli.options import JsonOnStdout, OverridesArgument, RecipeArgument, print_json
from gymlab.session.run_guard import guard_command

if TYPE_CHECKING:
    from rich.console import Console

    from gymlab.recipes.schema import Recipe
    from gymlab.session.throughput import Throughput


def tune_envs(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    n_envs: Annotated[
        list[int] | None,
        typer.Option(help="Envs to try; may be given again. Default: half to four times the recipe's.", min=1),
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="For each configuration, after it is compiled.", min=0.1, max=60)
    ] = 1.0,
    write: Annotated[bool, typer.Option("--write", help="Put the recommendation into your gymlab.toml.")] = False,
    json: JsonOnStdout = False,
) -> None:
    """Time training with every engine, in this process and in others, with few and many envs, and recommend one.

    Rollouts keep the recipe's size: twice the envs take half the steps each. Updates are part of the time; evaluation,
    films and full statistics are not.

    Example: gymlab tune-envs CartPole-v1 --write
    """
    from rich.console import Console

    from gymlab.recipes.project_settings import user_file, write_override
    from gymlab.recipes.resolve import resolve
    from gymlab.runs.platform import usable_cores
    from gymlab.session.throughput import overrides_for, recommend

    console = Console(stderr=json, markup=False, highlight=False, soft_wrap=True)
    with guard_command("before all were timed"):
        resolved = resolve(recipe, overrides or ())
        for note in resolved.notes:
            console.print(f"note: {note}")
        timed = _time_engines(resolved.recipe, n_envs or (), seconds, console)
        best = recommend(timed)
        recommended = _with_typed(overrides_for(resolved.recipe, best.config), overrides or [])
    path = user_file() if write and recommended else None
    if path is not None:
        write_override(path, resolved.recipe.name, recommended)
    if json:
        facts = {"recipe": resolved.recipe.name, "cores": usable_cores()}
        facts |= {"ways": [_throughput_json(found) for found in timed], "recommended": _throughput_json(best)}
        print_json({**facts, "overrides": recommended, "written": None if path is None else str(path)})
        return
    assert best.steps_per_second is not None
    console.print(
        f"recommended: {best.config.label} with {best.config.n_envs} envs, {best.steps_per_second.value:,.0f} steps/s"
    )
    console.print(_next(recipe, recommended, None if path is None else str(path)))


def _time_engines(recipe: Recipe, n_envs: Sequence[int], seconds: float, console: Console) -> list[Throughput]:
    """Time every configuration and print a row for each."""
    from gymlab.session.throughput import engine_configs, time_all

    configs = engine_configs(recipe, n_envs)
    console.print(f"{'engine':<22}{'n_envs':>7}{'n_steps':>9}{'steps/s':>12}   95% interval")
    timed: list[Throughput] = []
    with console.status(f"0 of {len(configs)}") as status:
        for found in time_all(recipe, configs, seconds):
            timed.append(found)
            status.update(f"{len(timed)} of {len(configs)}")
            for line in _lines(found, timed):
                console.print(line)
    return timed


def _with_typed(texts: list[str], typed: list[str]) -> list[str]:
    """The recommended overrides after the typed ones, without typed ones of the same key."""
    keys = {text.partition("=")[0] for text in texts}
    return [*(text for text in typed if texts and text.partition("=")[0] not in keys), *texts]


def _next(recipe: str, texts: list[str], written: str | None) -> str:
    if not texts:
        return f"next: gymlab train {recipe} (it does so by itself)"
    if written is not None:
        return f"written: {written}\nnext: gymlab train {recipe}"
    return f"next: gymlab train {recipe} {' '.join(texts)}, or --write to keep that"


def _lines(found: Throughput, timed: list[Throughput]) -> list[str]:
    config = found.config
    speed = found.steps_per_second
    if speed is None:
        printed = any(earlier.config.engine == config.engine for earlier in timed[:-1])
        return [] if printed else [f"{config.engine:<22}{found.reason}"]
    interval = f"{speed.low:,.0f} to {speed.high:,.0f}"
    return [f"{config.label:<22}{config.n_envs:>7}{config.n_steps:>9}{speed.value:>12,.0f}   {interval}"]


def _throughput_json(found: Throughput) -> dict[str, Any]:
    speed = found.steps_per_second
    figures = {"steps_per_second": None, "low": None, "high": None}
    if speed is not None:
        figures = {"steps_per_second": speed.value, "low": speed.low, "high": speed.high}  # type: ignore[dict-item]
    return {**found.config._asdict(), **figures, "reason": found.reason}
