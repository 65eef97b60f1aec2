"""`gymlab study`: what parallel envs and distinct seeds are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gymlab.cli.options import JsonOnStdout, OverridesArgument, RecipeArgument, RunBudget, RunSeed, print_json
from gymlab.session.run_guard import guard_command

if TYPE_CHECKING:
    from gymlab.core.statistics import Estimate

app = typer.Typer(no_args_is_help=True, help="Measure what parallel envs and distinct seeds are worth.")


@app.command()
def coverage(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    updates: Annotated[int, typer.Option(help="Rollouts to measure during training.", min=1)] = 8,
    seed: RunSeed = 0,
    json: JsonOnStdout = False,
) -> None:
    """Report how much the states and transitions of parallel envs overlap, rollout by rollout.

    States are put into cells (20 bins per feature; whole numbers and pictures as they are). `worth` is how many times
    the cells of one env all of them cover; `own` and `other` are distances from a state to the nearest one of the same
    env and of another, in standard deviations.

    Example: gymlab study coverage MountainCar-v0 --updates 4
    """
    from gymlab.campaigns.studies.coverage import format_visits, study

    console = _console(json)
    found = None
    name = _resolve(recipe, overrides)
    head = ("rollout", "cells", "one env", "worth", "shared", "jaccard", "new", "own", "other", "so far")
    console.print("".join(f"{title:>9}" for title in head))
    with guard_command("before all rollouts were seen"):
        for found in study(name, updates=updates, seed=seed):
            row = found.overlaps[-1]
            numbers = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in row]
            console.print("".join(f"{text:>9}" for text in numbers))
    assert found is not None
    if json:
        visits = None if found.visits is None else found.visits.tolist()
        rows = [row._asdict() for row in found.overlaps]
        facts = {"recipe": name.name, "n_envs": found.n_envs, "n_steps": found.n_steps, "rollouts": rows}
        print_json({**facts, "visits": visits})
        return
    if found.visits is not None:
        labels = name.env.observations or ("feature 0", "feature 1")
        console.print(f"visits: {labels[0]} to the right, {labels[1]} upwards")
        for line in format_visits(found.visits):
            console.print(f"|{line}|")
    last = found.overlaps[-1]
    console.print(f"{found.n_envs} envs are worth {last.worth:.3g} in the last rollout")
    console.print(f"next: gymlab study seeds {recipe}")


@app.command()
def seeds(
    recipe: RecipeArgument,
    overrides: OverridesArgument = None,
    runs: Annotated[int, typer.Option(help="Runs of each arm, with seeds 0, 1, ...", min=2)] = 5,
    budget: RunBudget = None,
    json: JsonOnStdout = False,
) -> None:
    """Compare training with seeds for every env against seeds that all envs share, and against one seed for ever.

    Interquartile means with 95% bootstrap intervals. Runs are not kept.

    Example: gymlab study seeds CartPole-v1 --runs 5 --budget 30k
    """
    from gymlab.campaigns.studies.seeds import ARMS, ArmRun, compare_arms, study

    console = _console(json)
    resolved = _resolve(recipe, overrides, budget)
    trained: list[ArmRun] = []
    console.print(f"{'seed':>4}  {'arm':<10}{'final':>10}{'on the way':>12}")
    total = runs * len(ARMS)
    with guard_command("before all runs were done"), console.status(f"run 1 of {total}") as status:
        for run in study(resolved, runs=runs):
            trained.append(run)
            status.update(f"run {min(len(trained) + 1, total)} of {total}")
            console.print(f"{run.seed:>4}  {run.arm:<10}{run.final:>10.4g}{run.on_the_way:>12.4g}")
    compared = compare_arms(trained)
    if json:
        rows = [{key: _plain(value) for key, value in row._asdict().items()} for row in compared]
        facts = {"recipe": resolved.name, "budget": str(resolved.budget), "n_envs": resolved.n_envs, "runs": runs}
        print_json({**facts, "arms": rows, "trained": [run._asdict() for run in trained]})
        return
    for row in compared:
        console.print(f"{row.arm}: {ARMS[row.arm]}")
        console.print(f"  final greedy return   {row.final}{_gained(row.final_gain)}")
        console.print(f"  sampled on the way    {row.on_the_way}{_gained(row.on_the_way_gain)}")
    console.print(f"next: gymlab study coverage {recipe}")


def _gained(gain: Estimate | None) -> str:
    if gain is None:
        return ""
    word = "more" if gain.low > 0 else "less" if gain.high < 0 else "no difference seen"
    return f"; distinct seeds gave {gain} ({word})"


def _plain(value: Any) -> Any:
    return value._asdict() if hasattr(value, "_asdict") else value


def _console(json: bool) -> Any:
    from rich.console import Console

    return Console(stderr=json, markup=False, highlight=False, soft_wrap=True)


def _resolve(recipe: str, overrides: list[str] | None, budget: str | None = None) -> Any:
    from gymlab.recipes.resolve import resolve

    return resolve(recipe, overrides or (), budget=budget).recipe
