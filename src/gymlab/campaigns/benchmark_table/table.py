"""The rows of a benchmark table: scores over seeds, steps to threshold, and whether the mark is reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gymlab.campaigns.benchmark_table.plan import BenchmarkRow
from gymlab.campaigns.benchmark_table.record import RunRecord, read_record
from gymlab.campaigns.benchmark_table.seeded_recipe import SeededRecipe, changes, seed_recipe
from gymlab.campaigns.summary import estimate_seeds, format_score, score_json
from gymlab.core.errors import UserError
from gymlab.core.format import format_count, format_duration
from gymlab.core.statistics import Estimate
from gymlab.core.types import Json


class BenchmarkResult(NamedTuple):
    """A row of the plan with the records of its runs."""

    row: BenchmarkRow
    records: tuple[RunRecord, ...]
    missing: tuple[int, ...]  # seeds without a result
    stale: Mapping[int, Sequence[str]]  # seed -> the settings that have changed since
    fault: str = ""  # why the recipe cannot be resolved on this machine

    @property
    def scores(self) -> list[float]:
        return [record.score(self.row.judged) for record in self.records]

    @property
    def score(self) -> Estimate | None:
        """The interquartile mean over seeds of the score the mark is for."""
        return estimate_seeds(self.scores)

    def score_by(self, mode: str) -> Estimate | None:
        """The interquartile mean over seeds of the greedy, sampled or exact score; None if a record lacks it."""
        if mode != "exact":
            return estimate_seeds([getattr(record, mode).mean for record in self.records])
        exact = [record.exact for record in self.records if record.exact is not None]
        return estimate_seeds(exact) if len(exact) == len(self.records) else None

    @property
    def solved(self) -> float | None:
        """The share of seeds whose score is at least the env's own threshold."""
        scored = [(record.score(self.row.judged), record.threshold) for record in self.records]
        if not scored or any(threshold is None for _, threshold in scored):
            return None
        return sum(score >= threshold for score, threshold in scored if threshold is not None) / len(scored)

    @property
    def steps_to_threshold(self) -> tuple[float, int] | None:
        """The median over the seeds that reached it, and how many did."""
        reached = [r.steps_to_threshold for r in self.records if r.steps_to_threshold is not None]
        return (statistics.median(reached), len(reached)) if reached else None

    @property
    def reached(self) -> bool | None:
        """Whether the mark is reached; None while seeds are missing or stale, or where there is no mark."""
        if self.row.mark is None or self.missing or self.stale or self.score is None:
            return None
        return self.score.value >= self.row.mark

    @property
    def verdict(self) -> str:
        seeds = len(self.records) + len(self.missing)
        if not self.records:
            return "not run"
        if self.stale:
            return f"stale ({len(self.stale)} of {seeds} seeds)"
        if self.missing:
            return f"{len(self.records)} of {seeds} seeds"
        return {True: "reached", False: "below", None: "reported"}[self.reached]


def seed_row(row: BenchmarkRow) -> list[SeededRecipe]:
    """The recipe of a row with each of its seeds."""
    assert row.seeds is not None
    return seed_recipe(row.recipe, row.set, row.seeds, budget=row.budget, full_budget=bool(row.full_budget))


def record_path(folder: Path, row: BenchmarkRow, seed: int) -> Path:
    return folder / row.slug / f"seed-{seed}.json"


def read_result(folder: Path, row: BenchmarkRow) -> BenchmarkResult:
    """A row with its records. Stale records count only if there are no others."""
    assert row.seeds is not None
    found = {seed: read_record(record_path(folder, row, seed)) for seed in row.seeds}
    known = {seed: record for seed, record in found.items() if record is not None}
    missing = tuple(seed for seed in row.seeds if seed not in known)
    try:
        settings = seed_row(row)[0].settings
    except UserError as error:  # an extra that is not installed here
        return BenchmarkResult(row, tuple(known.values()), missing, {}, str(error).splitlines()[0])
    changed = {seed: changes(record.settings, settings) for seed, record in known.items()}
    stale = {seed: lines for seed, lines in changed.items() if lines}
    current = tuple(record for seed, record in known.items() if seed not in stale)
    return BenchmarkResult(row, current or tuple(known.values()), missing, stale)


HEAD = ("recipe", "mark", "score", "sampled", "solved", "to threshold", "env steps", "time", "verdict")


def format_cells(result: BenchmarkResult) -> tuple[str, ...]:
    """The cells of a row, in the order of HEAD."""
    row = result.row
    records = result.records
    reached = result.steps_to_threshold
    return (
        row.title,
        "-" if row.mark is None else f"{row.mark:g}",
        format_score(result.score, len(records)),
        format_score(result.score_by("sampled"), len(records)),
        "-" if result.solved is None else f"{result.solved:.0%}",
        "-" if reached is None else f"{format_count(reached[0])} ({reached[1]} of {len(records)})",
        "-" if not records else format_count(statistics.median(record.env_steps for record in records)),
        "-" if not records else format_duration(statistics.median(record.seconds for record in records)),
        result.verdict,
    )


def result_json(result: BenchmarkResult) -> dict[str, Json]:
    """A row for `gymlab results show --json`."""
    row = result.row
    several = len(result.records) > 1
    return {
        "name": row.title,
        "recipe": row.recipe,
        "set": list(row.set),
        "mark": row.mark,
        "aim": row.aim,
        "judged": "exact" if row.judged == "greedy" and result.score_by("exact") else row.judged,
        "score": score_json(result.score, interval=several),
        **{mode: score_json(result.score_by(mode), interval=several) for mode in ("greedy", "sampled", "exact")},
        "solved": result.solved,
        "steps_to_threshold": None if result.steps_to_threshold is None else result.steps_to_threshold[0],
        "reached": result.reached,
        "verdict": result.verdict,
        "seeds": [record.seed for record in result.records],
        "missing": list(result.missing),
        "stale": {str(seed): list(lines) for seed, lines in result.stale.items()},
        "runs": [record.model_dump(mode="json", exclude={"settings", "curve"}) for record in result.records],
    }
