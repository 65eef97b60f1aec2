"""From records to the lines of a table: estimates over seeds, and whether a mark is reached. Pure functions."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gymlab.campaigns.benchmark_table.plan import Row
from gymlab.campaigns.benchmark_table.record import Record, read_record
from gymlab.campaigns.benchmark_table.trial import Trial, changes, trials
from gymlab.core.errors import UserError
from gymlab.core.format import format_count, format_duration
from gymlab.core.statistics import Estimate, estimate


class Line(NamedTuple):
    """A row of the plan with what its runs came to."""

    row: Row
    records: tuple[Record, ...]
    missing: tuple[int, ...]  # seeds without a result
    stale: Mapping[int, Sequence[str]]  # seed -> what was set differently then
    fault: str = ""  # why the recipe cannot be read here

    @property
    def scores(self) -> list[float]:
        return [record.score(self.row.judged) for record in self.records]

    @property
    def score(self) -> Estimate | None:
        """The interquartile mean over seeds of what the mark is for."""
        return estimate(self.scores) if self.records else None

    def of(self, mode: str) -> Estimate | None:
        """The interquartile mean of one way of acting, or of the exact score."""
        if not self.records or (mode == "exact" and any(record.exact is None for record in self.records)):
            return None
        return estimate(
            [float(record.exact or 0) if mode == "exact" else _mean(record, mode) for record in self.records]
        )

    @property
    def solved(self) -> float | None:
        """The share of seeds whose score is at least the env's own threshold."""
        known = [(record.score(self.row.judged), record.threshold) for record in self.records]
        if not known or any(threshold is None for _, threshold in known):
            return None
        return sum(score >= threshold for score, threshold in known if threshold is not None) / len(known)

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


def _mean(record: Record, mode: str) -> float:
    return record.sampled.mean if mode == "sampled" else record.greedy.mean


def trials_of(row: Row) -> list[Trial]:
    """The runs a row asks for."""
    assert row.seeds is not None
    return trials(row.recipe, row.set, row.seeds, budget=row.budget, full_budget=bool(row.full_budget))


def record_path(folder: Path, row: Row, seed: int) -> Path:
    return folder / row.slug / f"seed-{seed}.json"


def read_line(folder: Path, row: Row) -> Line:
    """A row with its results. Stale ones count only while there are no others."""
    assert row.seeds is not None
    found = {seed: read_record(record_path(folder, row, seed)) for seed in row.seeds}
    known = {seed: record for seed, record in found.items() if record is not None}
    missing = tuple(seed for seed in row.seeds if seed not in known)
    try:
        settings = trials_of(row)[0].settings
    except UserError as error:  # an extra that is not installed here
        return Line(row, tuple(known.values()), missing, {}, str(error).splitlines()[0])
    stale = {seed: told for seed, record in known.items() if (told := changes(record.settings, settings))}
    current = tuple(record for seed, record in known.items() if seed not in stale)
    return Line(row, current or tuple(known.values()), missing, stale)


HEAD = ("recipe", "mark", "score", "sampled", "solved", "to threshold", "env steps", "time", "verdict")


def cells(line: Line) -> tuple[str, ...]:
    """A line for people, in the order of HEAD."""
    row = line.row
    records = line.records
    reached = line.steps_to_threshold
    return (
        row.title,
        "-" if row.mark is None else f"{row.mark:g}",
        _estimated(line.score, line),
        _estimated(line.of("sampled"), line),
        "-" if line.solved is None else f"{line.solved:.0%}",
        "-" if reached is None else f"{format_count(reached[0])} ({reached[1]} of {len(records)})",
        "-" if not records else format_count(statistics.median(record.env_steps for record in records)),
        "-" if not records else format_duration(statistics.median(record.seconds for record in records)),
        line.verdict,
    )


def data(line: Line) -> dict[str, Any]:
    """A line for programs."""
    row = line.row
    return {
        "name": row.title,
        "recipe": row.recipe,
        "set": list(row.set),
        "mark": row.mark,
        "aim": row.aim,
        "judged": "exact" if row.judged == "greedy" and line.of("exact") else row.judged,
        "score": _interval(line.score, line),
        **{mode: _interval(line.of(mode), line) for mode in ("greedy", "sampled", "exact")},
        "solved": line.solved,
        "steps_to_threshold": None if line.steps_to_threshold is None else line.steps_to_threshold[0],
        "reached": line.reached,
        "verdict": line.verdict,
        "seeds": [record.seed for record in line.records],
        "missing": list(line.missing),
        "stale": {str(seed): list(told) for seed, told in line.stale.items()},
        "runs": [record.model_dump(mode="json", exclude={"settings", "curve"}) for record in line.records],
    }


def _estimated(found: Estimate | None, line: Line) -> str:
    """One seed has no interval: resampling it gives nothing but itself."""
    if found is None:
        return "-"
    return str(found) if len(line.records) > 1 else f"{found.value:.4g} (1 seed)"


def _interval(found: Estimate | None, line: Line) -> dict[str, float | None] | None:
    if found is None:
        return None
    several = len(line.records) > 1
    return {"iqm": found.value, "low": found.low if several else None, "high": found.high if several else None}
