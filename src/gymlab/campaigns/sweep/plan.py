"""SweepPlan: everything that decides the trials of a sweep. Written to plan.json once, before the first trial."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from gymlab.campaigns.sweep.pruning import rungs_for
from gymlab.campaigns.sweep.sampler import import_optuna
from gymlab.campaigns.sweep.space import Dimension, check_space, grid, parse_space
from gymlab.core.errors import RunError, UserError, suggestion
from gymlab.core.settings import Settings
from gymlab.core.types import Json
from gymlab.recipes.resolve import amend, read_run_text, resolve
from gymlab.recipes.schema import Recipe
from gymlab.recipes.secrets import dump_redacted_recipe
from gymlab.runs import files
from gymlab.runs.checkpoints import read_index
from gymlab.runs.manifest import versions
from gymlab.runs.paths import new_run_id
from gymlab.runs.selection import select_checkpoint
from gymlab.runs.status import now

FOLDER = ".sweeps"  # in the runs folder
FILE = "plan.json"
METHODS = ("grid", "random", "tpe", "cma")
PRUNERS = ("none", "halving", "median")
# Trials are compared by evaluations that do not depend on how busy the machine is, and are trained without videos.
TRIAL_OVERRIDES = ("eval.mode=sync", "video.clips=[]")
MAX_TRIALS = 10_000
_DEFAULT_TRIALS = 20
_ROUND = 4  # trials of a round; with halving 9, of which one trains to its end
_HALVING_ROUND = 9
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class SweepPlan(Settings):
    """Gives the same trials whichever processes train them, and however often they are interrupted."""

    name: str
    reference: str
    """ENV[:VARIANT] as the user wrote it."""
    title: str
    """The recipe's name."""
    recipe: str
    """YAML with every value, without secrets: what every trial changes."""
    overrides: tuple[str, ...] = ()
    """Of all trials, as the user wrote them."""
    budget: str | None = None
    """Of each run, as the user wrote it."""
    space: tuple[str, ...]
    method: Literal["grid", "random", "tpe", "cma"] = "tpe"
    prune: Literal["none", "halving", "median"] = "none"
    trials: int
    batch: int
    """Trials of a round: they are drawn together, from the results of earlier rounds."""
    rungs: tuple[int, ...] = ()
    """env_steps at which trials are compared and the worse ones pruned."""
    seeds: tuple[int, ...] = (0,)
    seed: int = 0
    """Of the sampler."""
    first: tuple[tuple[str, ...], ...] = ()
    """Overrides of trials that are trained before those the sampler draws."""
    full_budget: bool = True
    how: Literal["processes", "vmap"] = "processes"
    stop_at_critical: bool = False
    """Prune a trial when one of its runs raises a critical alert."""
    init_from: str | None = None
    """RUN/CHECKPOINT whose policy every run starts from."""
    solved_at_source: str | None = None
    storage: str | None = None
    """URL of a database; None: the journal in the sweep's folder."""
    created: str = ""
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        return parse_space(self.space)

    def round_of(self, index: int) -> int:
        return index // self.batch

    def members(self, round_number: int) -> range:
        """The trials of a round."""
        return range(round_number * self.batch, min((round_number + 1) * self.batch, self.trials))

    def run_id(self, index: int, seed: int) -> str:
        return f"{self.name}-t{index:03d}-s{seed}"

    def base(self) -> Recipe:
        return read_run_text(self.recipe)

    def as_json(self) -> dict[str, Json]:
        return self.model_dump(mode="json")


@dataclass(frozen=True)
class SweepOptions:
    """The arguments of `gymlab sweep`; None: chosen here."""

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
    stop_at_critical: bool = False


def make_plan(options: SweepOptions, runs_root: Path) -> tuple[SweepPlan, list[str]]:
    """The checked plan of a new sweep, and the notes of its recipe. Writes nothing."""
    import_optuna()
    for option, value, known in (("--method", options.method, METHODS), ("--prune", options.prune, PRUNERS)):
        if value not in known:
            raise UserError(f"{option} {value}: choose one of {', '.join(known)}")
    space = parse_space(options.space)
    resolved = resolve(options.reference, options.overrides, budget=options.budget)
    recipe = amend(resolved.recipe, TRIAL_OVERRIDES)
    check_space(space, recipe)
    trials = _trial_count(options, space)
    if options.vmap:
        _check_vmap(space, recipe)
    rollout = recipe.n_envs * recipe.n_steps
    plan = SweepPlan(
        name=options.name or new_run_id(re.sub(r"[^A-Za-z0-9]+", "-", recipe.name)[:16]),
        reference=options.reference,
        title=recipe.name,
        recipe=dump_redacted_recipe(recipe),
        overrides=options.overrides,
        budget=options.budget,
        space=options.space,
        method=options.method,
        prune=options.prune,
        trials=trials,
        batch=min(options.batch or _round_size(options), trials),
        rungs=rungs_for(options.prune, recipe.budget_env_steps, rollout),
        seeds=options.seeds,
        seed=options.seed,
        full_budget=not options.until_solved,
        how="vmap" if options.vmap else "processes",
        stop_at_critical=options.stop_at_critical,
        init_from=_resolve_checkpoint(options.init_from, runs_root),
        solved_at_source=resolved.solved_at_source,
        storage=options.storage,
        created=now(),
        versions=versions(),
    )
    sweep_folder(runs_root, plan.name)
    return plan, [f"note: {note}" for note in resolved.notes]


def _trial_count(options: SweepOptions, space: Sequence[Dimension]) -> int:
    if options.method != "grid":
        return options.trials or _DEFAULT_TRIALS
    count = 1
    for dimension in space:
        count *= len(dimension.points())
    if count > MAX_TRIALS:
        raise UserError(f"--method grid: {count} combinations, {MAX_TRIALS} at most: fewer values, or --method random")
    return min(options.trials or count, len(grid(space)))


def _check_vmap(space: Sequence[Dimension], recipe: Recipe) -> None:
    from gymlab.campaigns.group import check_alike  # imports JAX, which no other command on sweeps needs

    corners = [tuple(dimension.text(dimension.ends()[end]) for dimension in space) for end in (0, 1)]
    check_alike(recipe, {corner: amend(recipe, corner) for corner in corners})


def _round_size(options: SweepOptions) -> int:
    """One round of all trials if none is drawn from the results of others; else few, but enough to be compared."""
    if options.prune != "median" and options.method in ("grid", "random"):
        return MAX_TRIALS
    return _HALVING_ROUND if options.prune == "halving" else _ROUND


def _resolve_checkpoint(text: str | None, runs_root: Path) -> str | None:
    """RUN/NUMBER instead of RUN/best: which checkpoint is the best may change during the sweep."""
    if text is None:
        return None
    run, at, which = text.rpartition("@") if not text.startswith("@") and "/" not in text else ("", "", "")
    paths, chosen = select_checkpoint(f"{run}/{which}" if at and run else text, runs_root, default="best")
    number = read_index(paths).get(chosen, chosen) if chosen in ("best", "last") else chosen
    return f"{paths.root.resolve() if paths.root.parent != runs_root else paths.run_id}/{number}"


def sweep_folder(runs_root: Path, name: str) -> Path:
    """The folder of a sweep; UserError if `name` is not a valid name."""
    if _NAME.fullmatch(name) is None:
        raise UserError(f"--name {name[:60]!r}: letters, digits, '.', '_' and '-', at most 40")
    return runs_root / FOLDER / name


def list_sweeps(runs_root: Path) -> list[str]:
    """The names of all sweeps, the oldest first."""
    found = [path.parent for path in (runs_root / FOLDER).glob(f"*/{FILE}")]
    return [folder.name for folder in sorted(found, key=lambda folder: folder.stat().st_mtime)]


def write_plan(runs_root: Path, plan: SweepPlan) -> None:
    folder = sweep_folder(runs_root, plan.name)
    folder.mkdir(parents=True, exist_ok=True)
    files.write_json(folder / FILE, plan.as_json())


def read_plan(runs_root: Path, name: str) -> SweepPlan:
    """The plan of an existing sweep; a UserError that names the nearest one if there is none of this name."""
    path = sweep_folder(runs_root, name) / FILE
    if not path.is_file():
        known = list_sweeps(runs_root)
        hint = suggestion(name, known) if known else "there is none yet: gymlab sweep RECIPE --space KEY=..."
        raise UserError(f"no sweep '{name}': {hint}")
    return parse_plan(files.read_json(path), str(path))


def parse_plan(record: Json, where: str) -> SweepPlan:
    try:
        return SweepPlan.model_validate(record)
    except ValidationError as error:
        raise RunError(f"{where} is damaged ({error.error_count()} faults): the sweep cannot be resumed") from error


def reuse_plan(plan: SweepPlan, runs_root: Path) -> SweepPlan:
    """The existing plan of this name, so that the same command resumes its sweep; UserError if it differs."""
    if not (sweep_folder(runs_root, plan.name) / FILE).is_file():
        return plan
    known = read_plan(runs_root, plan.name)
    differ = _differing_fields(known, plan)
    if differ:
        raise UserError(
            f"sweep '{plan.name}' exists with another {', '.join(differ)}: "
            f"resume it with `gymlab sweep resume {plan.name}`, or choose another --name"
        )
    return known


def _differing_fields(known: SweepPlan, plan: SweepPlan) -> list[str]:
    ignored = {"created", "versions"}
    before = known.model_dump(exclude=ignored)
    after = plan.model_dump(exclude=ignored)
    return [key for key in before if before[key] != after[key]]
