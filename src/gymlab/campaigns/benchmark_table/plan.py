"""The plan of a results table: which recipes, with which seeds and marks. One YAML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from gymlab.core.clock import Count, Number
from gymlab.core.errors import UserError, suggestion
from gymlab.core.settings import Settings
from gymlab.recipes.problems import Problems, display_path
from gymlab.recipes.validate import VariantValidator
from gymlab.recipes.yaml_source import read_file

FILE = "plan.yaml"  # in the folder of results
_RANGE = re.compile(r"(\d{1,6})\.\.(\d{1,6})")
_MOST_SEEDS = 1000


def parse_seeds(raw: Any) -> tuple[int, ...]:
    """`5` (0 to 4), `3..7` or a list as seeds."""
    if isinstance(raw, list | tuple):
        given = [parse_seeds(f"{item}..{item}") if isinstance(item, int) else parse_seeds(item) for item in raw]
        return tuple(dict.fromkeys(seed for part in given for seed in part))
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


class Row(Settings):
    """One line of the table."""

    recipe: str
    """ENV[:VARIANT]."""
    name: str = ""
    """What the line is called; default: the recipe and its overrides."""
    set: tuple[str, ...] = ()
    """Overrides, key=value."""
    budget: str | None = None
    """Default: the recipe's."""
    seeds: Seeds | None = None
    """Default: the plan's."""
    episodes: Annotated[Count, Field(ge=1)] | None = None
    """Of each way of acting; default: the plan's."""
    full_budget: bool | None = None
    """Train to the end of the budget though solved; default: the plan's."""
    mark: Number | None = None
    """The score to reach."""
    aim: Number | None = None
    """What would be better still."""
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


class Plan(Settings):
    """All lines, and what holds for them where they say nothing."""

    seeds: Seeds = (0, 1, 2, 3, 4)
    episodes: Annotated[Count, Field(ge=1)] = 100
    full_budget: bool = True
    rows: tuple[Row, ...]

    def filled(self) -> tuple[Row, ...]:
        """The rows with the plan's own values where they have none."""
        mine = {"seeds": self.seeds, "episodes": self.episodes, "full_budget": self.full_budget}
        return tuple(
            row.model_copy(update={key: value for key, value in mine.items() if getattr(row, key) is None})
            for row in self.rows
        )


def read_plan(path: Path) -> tuple[Row, ...]:
    """The rows of a plan file; one UserError lists everything that is wrong with it."""
    if not path.is_file():
        raise UserError(f"there is no plan '{display_path(path)}': write one, or name its folder with --folder")
    problems = Problems()
    node = read_file(path, problems)
    checker = VariantValidator(node, None, None)
    plan = checker.validate(Plan, node.to_data() if isinstance(node.value, dict) else {}, ())
    problems.extend(checker.problems)
    if plan is not None:
        slugs = [row.slug for row in plan.rows]
        for place, row in enumerate(plan.rows):
            if slugs.index(row.slug) != place:
                problems.note(node.location_of(("rows", place)), f"rows[{place}]", f"'{row.title}' stands there twice")
    problems.raise_any()
    assert plan is not None
    return plan.filled()


def chosen(rows: tuple[Row, ...], names: list[str]) -> tuple[Row, ...]:
    """The rows a user names: by title, by recipe, or all of an env."""
    if not names:
        return rows
    found: list[Row] = []
    for name in names:
        fits = [row for row in rows if name in (row.title, row.slug)]
        fits = fits or [row for row in rows if name in (row.recipe, row.recipe.rpartition(":")[0])]
        if not fits:
            raise UserError(f"no row '{name}' in the plan: {suggestion(name, [row.title for row in rows], 30)}")
        found += [row for row in fits if row not in found]
    return tuple(found)
