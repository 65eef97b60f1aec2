"""`train --seeds` and `resume GROUP`: many runs at once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from gymlab.cli.sought import Sought
from gymlab.cli.terminal import orderly
from gymlab.core.errors import UserError

if TYPE_CHECKING:
    from gymlab.experiment.many.group import Outcome
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
    _refuse_detaching(detach)
    with orderly():
        from gymlab.cli.detach import typed_command
        from gymlab.experiment.many.pool import Pool
        from gymlab.recipes.settings_file import runs_folder
        from gymlab.trackers.assemble import choose_trackers

        asked = choose_trackers(*trackers)
        with Pool(_workers(grid.jobs, len(seeds))) as pool:
            if grid.vmap is None:
                pool.warm_up()  # while we read the recipe
            resolved = sought.resolve()
            from gymlab.experiment.many.group import Wishes, make_group, new_tasks, run_in_pool

            root, recipe = runs_folder(), resolved.recipe
            wishes = Wishes(typed_command(), asked.wandb, asked.tensorboard, output, tuple(resolved.notes))
            group = make_group(recipe, seeds, [], name=grid.name, how="processes")
            group = replace(group, **named, solved_at_source=resolved.solved_at_source)
            tasks = new_tasks(root, group, group.members, recipe, wishes)
            outcome = run_in_pool(root, group, tasks, pool, wishes)
        _finish(outcome, output)


def resume_many(group: Group, wanted: dict[str, Any], output: str, *, detach: bool) -> None:
    """Go on with the members of a group that are not finished or, where something changes, with all of them."""
    from gymlab.cli.detach import typed_command
    from gymlab.experiment.many.group import Wishes, more_tasks, new_tasks, run_in_pool
    from gymlab.experiment.many.pool import Pool
    from gymlab.recipes.load import read_run_text
    from gymlab.recipes.settings_file import runs_folder
    from gymlab.runs.groups import unfinished

    _refuse_detaching(detach)
    root = runs_folder()
    wishes = Wishes(typed_command(), output=output, **wanted)
    open_ones = unfinished(root, group)
    fresh = [member for member, has_begun in open_ones if not has_begun]
    begun = [member for member, has_begun in open_ones if has_begun]
    if wishes.overrides or wishes.budget or wishes.full_budget:
        begun = [member for member in group.members if member not in fresh]
    elif not open_ones:
        typer.echo(f"{group.name} has finished: extend it with `gymlab resume {group.name} --budget N`")
        return
    tasks = [
        *more_tasks(root, group, begun, wishes),
        *new_tasks(root, group, fresh, read_run_text(group.recipe), wishes),
    ]
    with Pool(_workers(None, len(tasks))) as pool:
        outcome = run_in_pool(root, group, tasks, pool, wishes)
    _finish(outcome, output)


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


def _workers(jobs: int | None, members: int) -> int:
    from gymlab.runs.platform import usable_cores

    return max(1, min(jobs or usable_cores(), members))


def _refuse_detaching(detach: bool) -> None:
    if detach:
        raise UserError("--detach starts one run: many at once go to the background with `nohup gymlab train ... &`")


def _finish(outcome: Outcome, output: str) -> None:
    if output in ("json", "jsonl"):
        typer.echo(json.dumps(outcome.as_json()))
    elif output != "quiet":
        for line in outcome.lines():
            typer.echo(line)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)
