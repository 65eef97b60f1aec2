"""From what a user asks for to a plan, and from a plan to its trials done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gymlab.campaigns.executors.pool import Pool
from gymlab.campaigns.executors.vmapped import VmappedExecutor
from gymlab.campaigns.group import check_alike
from gymlab.campaigns.sweep.plan import FILE, METHODS, PRUNERS, Plan, changed, read_plan, sweep_folder
from gymlab.campaigns.sweep.progress import shown
from gymlab.campaigns.sweep.pruning import rungs_for
from gymlab.campaigns.sweep.runner import Driver
from gymlab.campaigns.sweep.space import Dimension, check_space, grid, parse_space
from gymlab.campaigns.sweep.store import Ledger
from gymlab.campaigns.sweep.suggest import import_optuna
from gymlab.campaigns.sweep.trial import Row
from gymlab.core.errors import UserError
from gymlab.recipes.resolve import Resolved, amend, resolve
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.runs.checkpoints import read_index
from gymlab.runs.manifest import versions
from gymlab.runs.paths import new_run_id
from gymlab.runs.platform import usable_cores
from gymlab.runs.selection import select_checkpoint
from gymlab.runs.status import now
from gymlab.session.signals import watch_signals

# Runs are compared by evaluations that do not depend on how busy the machine is; nobody watches them.
QUIET = ("eval.mode=sync", "video.clips=[]")
MOST_TRIALS = 10_000
_DEFAULT_TRIALS = 20
_ROUND = 4  # trials of a round; with halving, so that one in nine comes to the end
_BRACKET = 9


@dataclass(frozen=True)
class Wanted:
    """A sweep as asked for; None is for us to choose."""

    reference: str
    overrides: tuple[str, ...]
    space: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    method: str = "tpe"
    prune: str = "none"
    trials: int | None = None
    batch: int | None = None
    budget: str | None = None
    seed: int = 0
    name: str | None = None
    storage: str | None = None
    init_from: str | None = None
    vmap: bool = False
    until_solved: bool = False
    stop_sick: bool = False


class Outcome(NamedTuple):
    """How a process of a sweep ended."""

    plan: Plan
    rows: list[Row]
    complete: bool
    exit_code: int


def make_plan(wanted: Wanted, runs_root: Path) -> tuple[Plan, list[str]]:
    """Everything checked and decided; nothing is written yet. Also the notes of the recipe."""
    import_optuna()
    for option, given, known in (("--method", wanted.method, METHODS), ("--prune", wanted.prune, PRUNERS)):
        if given not in known:
            raise UserError(f"{option} {given}: choose one of {', '.join(known)}")
    space = parse_space(wanted.space)
    resolved = resolve(wanted.reference, wanted.overrides, budget=wanted.budget)
    recipe = amend(resolved.recipe, QUIET)
    check_space(space, recipe)
    trials = _trials(wanted, space)
    if wanted.vmap:
        corners = [tuple(d.text(d.ends()[end]) for d in space) for end in (0, 1)]
        check_alike(recipe, {corner: amend(recipe, corner) for corner in corners})
    rollout = recipe.n_envs * recipe.n_steps
    plan = Plan(
        name=wanted.name or new_run_id(re.sub(r"[^A-Za-z0-9]+", "-", recipe.name)[:16]),
        reference=wanted.reference,
        title=recipe.name,
        recipe=dump_redacted_recipe(recipe),
        given=wanted.overrides,
        budget=wanted.budget,
        space=wanted.space,
        method=wanted.method,
        prune=wanted.prune,
        trials=trials,
        batch=min(wanted.batch or _batch(wanted), trials),
        rungs=rungs_for(wanted.prune, budget_env_steps(recipe), rollout),
        seeds=wanted.seeds,
        seed=wanted.seed,
        full_budget=not wanted.until_solved,
        how="vmap" if wanted.vmap else "processes",
        stop_sick=wanted.stop_sick,
        init_from=_source(wanted.init_from, runs_root),
        solved_at_source=resolved.solved_at_source,
        storage=wanted.storage,
        created=now(),
        versions=versions(),
    )
    sweep_folder(runs_root, plan.name)
    return plan, _notes(resolved)


def _notes(resolved: Resolved) -> list[str]:
    return [f"note: {note}" for note in resolved.notes]


def _trials(wanted: Wanted, space: Sequence[Dimension]) -> int:
    if wanted.method != "grid":
        return wanted.trials or _DEFAULT_TRIALS
    count = 1
    for dimension in space:
        count *= len(dimension.points())
    if count > MOST_TRIALS:
        raise UserError(f"--method grid: {count} combinations, {MOST_TRIALS} at most: fewer values, or --method random")
    return min(wanted.trials or count, len(grid(space)))


def _batch(wanted: Wanted) -> int:
    """Where no trial learns from another one round is enough; else small ones, but large enough to be compared."""
    if wanted.prune != "median" and wanted.method in ("grid", "random"):
        return MOST_TRIALS
    return _BRACKET if wanted.prune == "halving" else _ROUND


def budget_env_steps(recipe: Recipe) -> int:
    return recipe.budget.count * (recipe.n_envs if recipe.budget.clock == "vec_steps" else 1)


def _source(text: str | None, runs_root: Path) -> str | None:
    """The checkpoint itself: which one is the best may change while the sweep goes on."""
    if text is None:
        return None
    run, at, which = text.rpartition("@") if not text.startswith("@") and "/" not in text else ("", "", "")
    paths, chosen = select_checkpoint(f"{run}/{which}" if at and run else text, runs_root, default="best")
    number = read_index(paths).get(chosen, chosen) if chosen in ("best", "last") else chosen
    return f"{paths.root.resolve() if paths.root.parent != runs_root else paths.run_id}/{number}"


def known_plan(wanted: Plan, runs_root: Path) -> Plan:
    """The plan of that name where there is one already: the same command goes on with it, another is refused."""
    if not (sweep_folder(runs_root, wanted.name) / FILE).is_file():
        return wanted
    known = read_plan(runs_root, wanted.name)
    differ = changed(known, wanted)
    if differ:
        raise UserError(
            f"sweep '{wanted.name}' exists with another {', '.join(differ)}: "
            f"go on with it by `gymlab sweep resume {wanted.name}`, or choose another --name"
        )
    return known


def take_part(
    ledger: Ledger, runs_root: Path, *, workers: int | None, output: str, command: tuple[str, ...], take_over: bool
) -> Outcome:
    """Do trials until none is left, or until a signal comes."""
    plan = ledger.plan
    with shown(plan, output) as watch:
        driver = Driver(runs_root, ledger, watch, command)
        driver.take_over = take_over
        watch.rows(ledger.rows())
        with watch_signals(driver.stop) as interrupts:
            if plan.how == "vmap":
                complete = driver.run(VmappedExecutor())
            else:
                with Pool(workers or usable_cores()) as pool:
                    complete = driver.run(pool)
        rows = ledger.rows()
        watch.rows(rows)
    return Outcome(plan, rows, complete, 0 if complete else interrupts.exit_code)
