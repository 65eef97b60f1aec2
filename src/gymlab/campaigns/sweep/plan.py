"""What a sweep is: everything that decides its trials. Written once, read by whoever joins or goes on with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from gymlab.campaigns.sweep.space import Dimension, parse_space
from gymlab.core.errors import RunError, UserError, suggestion
from gymlab.core.settings import Settings
from gymlab.recipes.resolve import read_run_text
from gymlab.recipes.schema import Recipe
from gymlab.runs import files

FOLDER = ".sweeps"  # among the runs
FILE = "plan.json"
JOURNAL = "journal.log"
METHODS = ("grid", "random", "tpe", "cma")
PRUNERS = ("none", "halving", "median")
ETA = 3  # of `eta` trials at a rung one goes on
Method = Literal["grid", "random", "tpe", "cma"]
Prune = Literal["none", "halving", "median"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class Plan(Settings):
    """A sweep. The same plan gives the same trials, whoever does them and however often they are interrupted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    reference: str
    """ENV[:VARIANT] as the user wrote it."""
    title: str
    """The recipe's name."""
    recipe: str
    """YAML with every value, without secrets: what every trial changes."""
    given: tuple[str, ...] = ()
    """Overrides of all trials."""
    budget: str | None = None
    """Of each run, as the user wrote it."""
    space: tuple[str, ...]
    method: Method = "tpe"
    prune: Prune = "none"
    trials: int
    batch: int
    """Trials of a round: they are decided on together, from the rounds before."""
    rungs: tuple[int, ...] = ()
    """env_steps at which trials are compared, and the worse given up."""
    seeds: tuple[int, ...] = (0,)
    seed: int = 0
    """Of the sampler."""
    first: tuple[tuple[str, ...], ...] = ()
    """Overrides of trials that come before all that are drawn."""
    full_budget: bool = True
    how: Literal["processes", "vmap"] = "processes"
    stop_sick: bool = False
    """Give a trial up when a run of it raises a critical alert."""
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


def sweep_folder(runs_root: Path, name: str) -> Path:
    """Where a sweep lies; UserError where that is no name for one."""
    if _NAME.fullmatch(name) is None:
        raise UserError(f"--name {name[:60]!r}: letters, digits, '.', '_' and '-', at most 40")
    return runs_root / FOLDER / name


def known_sweeps(runs_root: Path) -> list[str]:
    """The names of all sweeps, the oldest first."""
    found = [path.parent for path in (runs_root / FOLDER).glob(f"*/{FILE}")]
    return [folder.name for folder in sorted(found, key=lambda folder: folder.stat().st_mtime)]


def write_plan(runs_root: Path, plan: Plan) -> None:
    folder = sweep_folder(runs_root, plan.name)
    folder.mkdir(parents=True, exist_ok=True)
    files.write_json(folder / FILE, plan.model_dump(mode="json"))


def read_plan(runs_root: Path, name: str) -> Plan:
    """The plan of a sweep; UserError, naming the nearest, where there is none."""
    path = sweep_folder(runs_root, name) / FILE
    known = known_sweeps(runs_root)
    if not path.is_file():
        told = suggestion(name, known) if known else "there is none yet: gymlab sweep RECIPE --space KEY=..."
        raise UserError(f"no sweep '{name}': {told}")
    return parse_plan(files.read_json(path), str(path))


def parse_plan(record: Any, where: str) -> Plan:
    try:
        return Plan.model_validate(record)
    except ValidationError as error:
        raise RunError(f"{where} is damaged ({error.error_count()} faults): the sweep cannot go on") from error


def changed(known: Plan, wanted: Plan) -> list[str]:
    """What a plan of the same name has differently: such a sweep is another one."""
    beside = {"created", "versions"}
    before = known.model_dump(exclude=beside)
    after = wanted.model_dump(exclude=beside)
    return [key for key in before if before[key] != after[key]]
