"""`train --seeds` and `resume GROUP`: trains the runs of a group, in processes or in one vmapped program."""

from __future__ import annotations

import itertools
import json
import os
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import typer

from gymlab.cli.options import LaunchOptions, NewRunOptions, OutputMode, ResumeOptions, parse_seeds
from gymlab.cli.targets import RecipeArguments
from gymlab.core.errors import UserError
from gymlab.session.run_guard import guard_command

if TYPE_CHECKING:
    from gymlab.campaigns.executors.pool import Pool
    from gymlab.campaigns.executors.protocol import Executor
    from gymlab.campaigns.group import GroupOptions, GroupOutcome
    from gymlab.campaigns.run_spec import RunSpec
    from gymlab.recipes.schema import Recipe
    from gymlab.runs.groups import Group


class GroupLayout(NamedTuple):
    """The options that decide which members a group has and how many train at once."""

    seeds: str | None
    vmap: list[str] | None  # None without --vmap; [""] for `--vmap` without values
    jobs: int | None


def train_group(target: RecipeArguments, layout: GroupLayout, new: NewRunOptions, launch: LaunchOptions) -> None:
    """Train one run per seed and variation, in processes or in one vmapped program."""
    seeds = parse_seeds(layout.seeds or "1", new.seed)
    varied = parse_variations(layout.vmap or [])
    _refuse_detaching(launch)
    if layout.vmap is not None and layout.jobs is not None:
        raise UserError("--jobs is for runs in processes of their own: leave it out beside --vmap")
    with guard_command(), _pool(layout.jobs, len(seeds)) as pool:
        if layout.vmap is None and not _may_have_gpu():
            pool.warm_up()  # while the recipe is read
        from gymlab.campaigns.group import GroupOptions, make_group, new_specs
        from gymlab.cli.detach import typed_command
        from gymlab.recipes.project_settings import runs_folder
        from gymlab.trackers.assemble import choose_trackers

        trackers = choose_trackers(launch.wandb, launch.tensorboard)
        resolved = target.resolve()
        options = GroupOptions(
            typed_command(), trackers.wandb, trackers.tensorboard, launch.output, tuple(resolved.notes)
        )
        how = "vmap" if layout.vmap is not None or _suits_gpu(resolved.recipe) else "processes"
        group = make_group(resolved.recipe, seeds, varied, name=new.group or new.run_id, how=how)
        group = replace(
            group,
            full_budget=new.full_budget,
            tags=new.tags,
            note=new.note,
            init_from=new.init_from,
            solved_at_source=resolved.solved_at_source,
        )
        specs = new_specs(runs_folder(), group, group.members, resolved.recipe, options)
        _finish(_run(group, specs, pool, options), launch.output)


def resume_group(group: Group, changed: ResumeOptions, launch: LaunchOptions) -> None:
    """Resume the unfinished members of a group; all members if the budget or an override changes."""
    from gymlab.campaigns.group import GroupOptions, new_specs, resumed_specs
    from gymlab.cli.detach import typed_command
    from gymlab.recipes.project_settings import runs_folder
    from gymlab.recipes.resolve import amend, read_run_text
    from gymlab.runs.groups import unfinished

    _refuse_detaching(launch)
    root = runs_folder()
    options = GroupOptions(
        typed_command(),
        output=launch.output,
        overrides=changed.changes,
        budget=changed.budget,
        full_budget=changed.full_budget,
        reschedule=changed.reschedule,
    )
    open_members = unfinished(root, group)
    new = [member for member, has_begun in open_members if not has_begun]
    begun = [member for member, has_begun in open_members if has_begun]
    if options.overrides or options.budget or options.full_budget is not None:
        begun = [member for member in group.members if member not in new]
    elif not open_members:
        typer.echo(f"{group.name} has finished: extend it with `gymlab resume {group.name} --budget N`")
        return
    recipe = amend(read_run_text(group.recipe), options.overrides, budget=options.budget)
    specs = [*resumed_specs(root, group, begun, options), *new_specs(root, group, new, recipe, options)]
    with _pool(None, len(specs)) as pool:
        _finish(_run(group, specs, pool, options), launch.output)


def _run(group: Group, specs: list[RunSpec], pool: Pool, options: GroupOptions) -> GroupOutcome:
    from gymlab.campaigns.group import run_group
    from gymlab.recipes.project_settings import runs_folder

    executor: Executor = pool
    if group.how == "vmap":
        from gymlab.campaigns.executors.vmapped import VmappedExecutor

        executor = VmappedExecutor()
    return run_group(runs_folder(), group, specs, executor, options)


def parse_variations(texts: list[str]) -> list[tuple[str, ...]]:
    """The variations of `KEY=A,B`; several keys give their Cartesian product."""
    keys = []
    for text in filter(None, texts):
        key, equals, values = text.partition("=")
        found = [value.strip() for value in values.split(",")]
        if not equals or not all(found) or not key.strip():
            raise UserError(f"--vmap {text[:80]!r}: a key and its values, e.g. ppo.learning_rate=1e-4,3e-4,1e-3")
        keys.append([f"{key.strip()}={value}" for value in dict.fromkeys(found)])
    return list(itertools.product(*keys)) if keys else []


def _pool(jobs: int | None, members: int) -> Pool:
    from gymlab.campaigns.executors.pool import Pool
    from gymlab.runs.platform import usable_cores

    return Pool(max(1, min(jobs or usable_cores(), members)))


def _may_have_gpu() -> bool:
    """Whether JAX could find a GPU, judged by its installed plugins without importing it."""
    if os.environ.get("JAX_PLATFORMS", "").strip() == "cpu":
        return False
    return any(find_spec(f"jax_{kind}_plugin") is not None for kind in ("cuda12", "cuda13", "rocm7", "rocm60"))


def _suits_gpu(recipe: Recipe) -> bool:
    """Whether there is a GPU and the env compiles: then one vmapped program is fastest."""
    if recipe.device == "cpu" or not _may_have_gpu():
        return False
    import jax

    from gymlab.session.choose_engine import compiled_env

    with suppress(RuntimeError):
        return bool(jax.devices("gpu")) and compiled_env(recipe, None)[0] is not None
    return False


def _refuse_detaching(launch: LaunchOptions) -> None:
    if launch.detach:
        raise UserError("--detach starts one run: many at once go to the background with `nohup gymlab train ... &`")


def _finish(outcome: GroupOutcome, output: OutputMode) -> None:
    if output in ("json", "jsonl"):
        typer.echo(json.dumps(outcome.as_json()))
    elif output != "quiet":
        for line in outcome.lines():
            typer.echo(line)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)
