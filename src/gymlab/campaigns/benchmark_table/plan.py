"""The plan of a benchmark table: which recipes, with which seeds and marks. One YAML file, results/plan.yaml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gymlab.core.clock import Count, Number
from gymlab.core.errors import UserError, suggestion
from gymlab.core.settings import Settings
from gymlab.core.types import Json
from gymlab.recipes.problems import Problems, display_path
from gymlab.recipes.validate import VariantValidator
from gymlab.recipes.yaml_source import read_file

FILE = "plan.yaml"  # in the folder of results
_RANGE = re.compile(r"(\d{1,6})\.\.(\d{1,6})")
_MOST_SEEDS = 1000


def parse_seeds(raw: Json) -> tuple[int, ...]:
    """`5` (0 to 4), `3..7` or a list as seeds."""
    if isinstance(raw, list | tuple):
        parts = [parse_seeds(f"{item}..{item}") if isinstance(item, int) else parse_seeds(item) for item in raw]
        return tuple(dict.fromkeys(seed for part in parts for seed in part))
    text = str(raw).strip()
    between = _RANGE.fullmatch(text)
    if between is not None:
        first, last = int(between[1]), int(between[2])
        if first <= last < first + _MOST_SEEDS:
            return tuple(range(first, last + 1))
    elif re.fullmatch(r"\d{1,4}", text) and not isinstance(raw, bool) and 1 <= int(text) <= _MOST_SEEDS:
        return tuple(range(int(text)))
    raise ValueError(f"expected a number of seeds, a range such as 0..4 or a list, got {raw!r}")


Seeds = Annotated[tuple[int, ...], BeforeValidator(parse_seeds), Field(min_length=1)]


class BenchmarkRow(Settings):
    """One row of the plan: a recipe, the seeds to train it with, and the score to reach."""

    recipe: str
    """ENV[:VARIANT]."""
    name: str = ""
    """Title of the row; default: the recipe and its overrides."""
    set: tuple[str, ...] = ()
    """Overrides, key=value."""
    budget: str | None = None
    """Default: the recipe's."""
    seeds: Seeds | None = None
    """Default: the plan's."""
    episodes: Annotated[Count, Field(ge=1)] | None = None
    """Scoring episodes, greedy and sampled each; default: the plan's."""
    full_budget: bool | None = None
    """Train to the end of the budget even if solved; default: the plan's."""
    mark: Number | None = None
    """The score to reach."""
    aim: Number | None = None
    """A score beyond the mark to aim for."""
    judged: Literal["greedy", "sampled"] = "greedy"
    """Which score the mark is for. Where the env is a transition table the exact greedy score takes its place."""
    references: tuple[str, ...] | None = None
    """Systems of the reference data to print beside it; default: all with the same algorithm."""
    note: str = ""

    @property
    def title(self) -> str:
        return self.name or " ".join([self.recipe, *self.set])

    @property
    def slug(self) -> str:
        """The title as a file's name."""
        return re.sub(r"[^A-Za-z0-9.=-]+", "-", self.title).strip("-")[:80]


class BenchmarkPlan(Settings):
    """All rows, and the defaults of their fields."""

    seeds: Seeds = (0, 1, 2, 3, 4)
    episodes: Annotated[Count, Field(ge=1)] = 100
    full_budget: bool = True
    rows: tuple[BenchmarkRow, ...]

    def rows_with_defaults(self) -> tuple[BenchmarkRow, ...]:
        defaults = {"seeds": self.seeds, "episodes": self.episodes, "full_budget": self.full_budget}
        return tuple(
            row.model_copy(update={key: value for key, value in defaults.items() if getattr(row, key) is None})
            for row in self.rows
        )


def read_plan(path: Path) -> tuple[BenchmarkRow, ...]:
    """The rows of a plan file; a UserError lists all its problems."""
    if not path.is_file():
        raise UserError(f"there is no plan '{display_path(path)}': write one, or name its folder with --folder")
    problems = Problems()
    node = read_file(path, problems)
    checker = VariantValidator(node, None, None)
    plan = checker.validate(BenchmarkPlan, node.to_data() if isinstance(node.value, dict) else {}, ())
    problems.extend(checker.problems)
    if plan is not None:
        slugs = [row.slug for row in plan.rows]
        for place, row in enumerate(plan.rows):
            if slugs.index(row.slug) != place:
                problems.note(node.location_of(("rows", place)), f"rows[{place}]", f"'{row.title}' is there twice")
    problems.raise_any()
    assert plan is not None
    return plan.rows_with_defaults()


def select_rows(rows: tuple[BenchmarkRow, ...], names: list[str]) -> tuple[BenchmarkRow, ...]:
    """The rows of these titles, recipes or envs; all rows without names."""
    if not names:
        return rows
    found: list[BenchmarkRow] = []
    for name in names:
        matches = [row for row in rows if name in (row.title, row.slug)]
        matches = matches or [row for row in rows if name in (row.recipe, row.recipe.rpartition(":")[0])]
        if not matches:
            raise UserError(f"no row '{name}' in the plan: {suggestion(name, [row.title for row in rows], 30)}")
        found += [row for row in matches if row not in found]
    return tuple(found)
