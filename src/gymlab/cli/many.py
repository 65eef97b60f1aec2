"""`train --seeds` and `resume GROUP`: many runs at once."""

from __future__ import annotations

import itertools
import json
import os
import re
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from gymlab.cli.startup import run_guard
from gymlab.cli.targets import Sought
from gymlab.core.errors import UserError

if TYPE_CHECKING:
    from gymlab.campaigns.executors.pool import Pool
    from gymlab.campaigns.executors.protocol import Executor
    from gymlab.campaigns.group import GroupOptions, GroupOutcome
    from gymlab.campaigns.run_spec import RunSpec
    from gymlab.recipes.schema import Recipe
    from gymlab.runs.groups import Group

MOST_MEMBERS = 10_000


class Grid(NamedTuple):
    """Which members there are, as the command line says it."""

    seed: int
    seeds: str | None
    vmap: list[str] | None  # None: not asked for; "" is `--vmap` by itself
    jobs: int | None
    name: str | None


def train_many(
    sought: Sought,
    grid: Grid,
    named: dict[str, Any],
    output: str,
    *,
    detach: bool,
    trackers: tuple[str | None, bool],
) -> None:
    """A run per seed and variation, in processes of their own or in one vmapped program."""
    seeds = parse_seeds(grid.seeds or "1", grid.seed)
    varied = parse_variations(grid.vmap or [])
    _refuse_detaching(detach)
    if grid.vmap is not None and grid.jobs is not None:
        raise UserError("--jobs is for runs in processes of their own: leave it out beside --vmap")
    with run_guard(), _pool(grid.jobs, len(seeds)) as pool:
        if grid.vmap is None and not _may_have_gpu():
            pool.warm_up()  # while we read the recipe
        from gymlab.campaigns.group import GroupOptions, make_group, new_specs
        from gymlab.cli.detach import typed_command
        from gymlab.recipes.project_settings import runs_folder
        from gymlab.trackers.assemble import choose_trackers

        asked = choose_trackers(*trackers)
        resolved = sought.resolve()
        options = GroupOptions(typed_command(), asked.wandb, asked.tensorboard, output, tuple(resolved.notes))
        how = "vmap" if grid.vmap is not None or _suits_gpu(resolved.recipe) else "processes"
        group = make_group(resolved.recipe, seeds, varied, name=grid.name, how=how)
        group = replace(group, **named, solved_at_source=resolved.solved_at_source)
        specs = new_specs(runs_folder(), group, group.members, resolved.recipe, options)
        _finish(_run(group, specs, pool, options), output)


def resume_many(group: Group, wanted: dict[str, Any], output: str, *, detach: bool) -> None:
    """Go on with the members of a group that are not finished or, where something changes, with all of them."""
    from gymlab.campaigns.group import GroupOptions, new_specs, resumed_specs
    from gymlab.cli.detach import typed_command
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.recipes.resolve import amend, read_run_text
    from gymlab.runs.groups import unfinished

    _refuse_detaching(detach)
    root = runs_folder()
    options = GroupOptions(typed_command(), output=output, **wanted)
    open_ones = unfinished(root, group)
    fresh = [member for member, has_begun in open_ones if not has_begun]
    begun = [member for member, has_begun in open_ones if has_begun]
    if options.overrides or options.budget or options.full_budget:
        begun = [member for member in group.members if member not in fresh]
    elif not open_ones:
        typer.echo(f"{group.name} has finished: extend it with `gymlab resume {group.name} --budget N`")
        return
    recipe = amend(read_run_text(group.recipe), options.overrides, budget=options.budget)
    specs = [*resumed_specs(root, group, begun, options), *new_specs(root, group, fresh, recipe, options)]
    with _pool(None, len(specs)) as pool:
        _finish(_run(group, specs, pool, options), output)


def _run(group: Group, specs: list[RunSpec], pool: Pool, options: GroupOptions) -> GroupOutcome:
    from gymlab.campaigns.group import run_group
    from gymlab.recipes.project_settings import runs_folder

    executor: Executor = pool
    if group.how == "vmap":
        from gymlab.campaigns.executors.vmapped import VmappedExecutor

        executor = VmappedExecutor()
    return run_group(runs_folder(), group, specs, executor, options)


def parse_variations(texts: list[str]) -> list[tuple[str, ...]]:
    """`learning_rate=1e-4,1e-3` as two variations; several keys with one another."""
    keys = []
    for text in filter(None, texts):
        key, equals, values = text.partition("=")
        found = [value.strip() for value in values.split(",")]
        if not equals or not all(found) or not key.strip():
            raise UserError(f"--vmap {text[:80]!r}: a key and its values, e.g. ppo.learning_rate=1e-4,3e-4,1e-3")
        keys.append([f"{key.strip()}={value}" for value in dict.fromkeys(found)])
    return list(itertools.product(*keys)) if keys else []


def parse_seeds(text: str, first: int = 0) -> list[int]:
    """`8` is as many from `first` on, `0..7` both ends and all between, `1,5,9` those."""
    words = [word.strip() for word in text.split(",")]
    seeds: list[int] = []
    for word in words:
        match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", word)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise UserError(f"--seeds={text[:80]!r}: how many (8), from..to (0..7) or a list (1,5,9)")
        if match[2]:
            seeds += range(int(match[1]), min(int(match[2]), int(match[1]) + MOST_MEMBERS) + 1)
        elif len(words) > 1:
            seeds.append(int(match[1]))
        else:
            seeds += range(first, first + min(int(match[1]), MOST_MEMBERS + 1))
    seeds = list(dict.fromkeys(seeds))
    if not 1 <= len(seeds) <= MOST_MEMBERS:
        raise UserError(f"--seeds={text[:80]!r}: at least 1 and at most {MOST_MEMBERS} runs")
    return seeds


def _pool(jobs: int | None, members: int) -> Pool:
    from gymlab.campaigns.executors.pool import Pool
    from gymlab.runs.platform import usable_cores

    return Pool(max(1, min(jobs or usable_cores(), members)))


def _may_have_gpu() -> bool:
    """Whether JAX could find a GPU; nothing is imported to find out."""
    if os.environ.get("JAX_PLATFORMS", "").strip() == "cpu":
        return False
    return any(find_spec(f"jax_{kind}_plugin") is not None for kind in ("cuda12", "cuda13", "rocm7", "rocm60"))


def _suits_gpu(recipe: Recipe) -> bool:
    """Whether the runs are of the kind that a GPU makes best together: compiled, and there is one."""
    if recipe.device == "cpu" or not _may_have_gpu():
        return False
    import jax

    from gymlab.session.choose_engine import compiled_env

    with suppress(RuntimeError):
        return bool(jax.devices("gpu")) and compiled_env(recipe, None)[0] is not None
    return False


def _refuse_detaching(detach: bool) -> None:
    if detach:
        raise UserError("--detach starts one run: many at once go to the background with `nohup gymlab train ... &`")


def _finish(outcome: GroupOutcome, output: str) -> None:
    if output in ("json", "jsonl"):
        typer.echo(json.dumps(outcome.as_json()))
    elif output != "quiet":
        for line in outcome.lines():
            typer.echo(line)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)
