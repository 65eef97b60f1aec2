"""Comparison of two sets of runs: differences with bootstrap intervals, and a verdict that claims no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gymlab.campaigns.benchmark_table.record import RunRecord
from gymlab.core.format import format_count
from gymlab.core.statistics import Estimate, difference, estimate, probability_of_improvement
from gymlab.core.types import Json

MIN_SEEDS = 3  # a side; below, an interval from resampling seeds means nothing


class Side(NamedTuple):
    """One side of a comparison: a name and the records of its runs."""

    label: str
    records: tuple[RunRecord, ...]


class Contrast(NamedTuple):
    """One quantity compared between A and B. `gain` is how much better B is, in the quantity's own unit."""

    name: str
    a: Estimate
    b: Estimate
    gain: Estimate
    better_b: float  # probability that a run of B beats one of A
    enough: bool  # at least MIN_SEEDS a side
    steps: bool = False  # the quantity counts steps: fewer are better

    def format(self, found: Estimate) -> str:
        """An estimate of this quantity as text."""
        low, high = format_count(found.low), format_count(found.high)
        return f"{format_count(found.value)} [{low}, {high}]" if self.steps else str(found)

    @property
    def significant(self) -> bool:
        """Whether the interval of the gain lies on one side of zero, with enough seeds."""
        return self.enough and (self.gain.low > 0 or self.gain.high < 0)

    def as_json(self) -> dict[str, Json]:
        return {
            "a": self.a._asdict(),
            "b": self.b._asdict(),
            "gain": self.gain._asdict(),
            "probability_of_improvement": self.better_b,
            "difference_shown": self.significant,
        }


def contrast(name: str, a: Sequence[float], b: Sequence[float], *, steps: bool = False) -> Contrast:
    """B against A; fewer steps are better, of other quantities more is better."""
    gain = difference(a, b) if steps else difference(b, a)
    wins = probability_of_improvement(a, b) if steps else probability_of_improvement(b, a)
    return Contrast(name, estimate(a), estimate(b), gain, wins, min(len(a), len(b)) >= MIN_SEEDS, steps)


def scores(side: Side, judged: str = "greedy") -> list[float]:
    return [record.score(judged) for record in side.records]


def common_threshold(sides: Sequence[Side]) -> float | None:
    """The threshold of all runs; None if they do not have the same one."""
    known = {record.threshold for side in sides for record in side.records}
    return known.pop() if len(known) == 1 else None


def steps_to(record: RunRecord, threshold: float, horizon: int) -> int | None:
    """env_steps to the run's first evaluation at the threshold; None if there is none within the horizon."""
    reached = next((steps for steps, value in record.curve if value >= threshold), None)
    return reached if reached is not None and reached <= horizon else None


class Comparison(NamedTuple):
    """The result of `gymlab compare`."""

    a: Side
    b: Side
    score: Contrast
    auc: Contrast | None
    steps: Contrast | None
    threshold: float | None
    reached: tuple[int, int]  # runs of each side that reached the threshold
    notes: tuple[str, ...]


def compare(a: Side, b: Side, *, threshold: float | None = None, judged: str = "greedy") -> Comparison:
    """B against A, by score, by the area under the curve and by steps to a threshold."""
    goal = common_threshold((a, b)) if threshold is None else threshold
    every = [*a.records, *b.records]
    horizon = min(record.horizon for record in every)
    steps = None
    reached = (0, 0)
    if goal is not None:
        timed = [[steps_to(record, goal, horizon) for record in side.records] for side in (a, b)]
        reached = (len(timed[0]) - timed[0].count(None), len(timed[1]) - timed[1].count(None))
        if any(reached):
            values = [[float(horizon if step is None else step) for step in side] for side in timed]
            steps = contrast("steps to threshold", *values, steps=True)
    areas = [[record.auc for record in side.records if record.auc is not None] for side in (a, b)]
    same = len({record.horizon for record in every}) == 1 and all(areas)
    area = contrast("mean return over training", *areas) if same else None
    found = contrast("score", scores(a, judged), scores(b, judged))
    return Comparison(a, b, found, area, steps, goal, reached, tuple(_notes(a, b)))


def _notes(a: Side, b: Side) -> list[str]:
    every = [*a.records, *b.records]
    notes = []
    envs = {record.recipe.rpartition(":")[0] for record in every}
    if len(envs) > 1:
        notes.append(f"different envs ({', '.join(sorted(envs))}): their returns do not compare")
    if len({record.budget for record in every}) > 1:
        notes.append("different budgets: steps beyond the smaller one are not counted")
    open_ends = [record.run_id for record in every if record.status != "finished"]
    if open_ends:
        notes.append(f"not at their end: {', '.join(open_ends)}")
    fewest = min(len(a.records), len(b.records))
    if fewest < 5:
        notes.append(f"{fewest} seed{'s' * (fewest > 1)} a side: intervals from so few are too narrow; 5 are usual")
    return notes


def verdict(found: Contrast, a: str, b: str) -> str:
    """One sentence; no difference is claimed if its interval includes zero."""
    if not found.enough:
        return f"{found.name}: too few runs to say, {MIN_SEEDS} a side are the least"
    if not found.significant:
        return f"{found.name}: no difference is shown, the 95 % interval holds zero"
    better, worse, by = (b, a, found.gain) if found.gain.low > 0 else (a, b, _negate(found.gain))
    return f"{found.name}: {better} is better than {worse} by {found.format(by)} (95 %)"


def _negate(found: Estimate) -> Estimate:
    return Estimate(-found.value, -found.high, -found.low)


def format_comparison(found: Comparison) -> list[str]:
    """The comparison as text."""
    from gymlab.reports.sections import columns

    contrasts = [part for part in (found.score, found.auc, found.steps) if part is not None]
    rows: list[tuple[str, ...]] = [("", "A", "B", "B better by", "P(B better)")]
    rows += [(part.name, *map(part.format, (part.a, part.b, part.gain)), f"{part.better_b:.2f}") for part in contrasts]
    lines = [f"A: {found.a.label} ({len(found.a.records)} runs)", f"B: {found.b.label} ({len(found.b.records)} runs)"]
    lines += ["", *columns(rows, right=range(1, 5)), ""]
    if found.threshold is not None:
        reached = " and ".join(
            f"{count} of {len(side.records)} runs of {name}"
            for count, side, name in zip(found.reached, (found.a, found.b), "AB", strict=True)
        )
        cut = format_count(min(record.horizon for record in (*found.a.records, *found.b.records)))
        lines.append(f"threshold {found.threshold:g}: {reached} reached it; one that did not counts as {cut} steps")
    lines += [f"note: {note}" for note in found.notes]
    return [*lines, *(verdict(part, "A", "B") for part in contrasts)]


def comparison_json(found: Comparison) -> dict[str, Json]:
    """The comparison for `gymlab compare --json`."""
    sides: dict[str, Json] = {
        name: {
            "label": side.label,
            "runs": [record.run_id for record in side.records],
            "scores": scores(side),
            "steps_to_threshold": [record.steps_to_threshold for record in side.records],
        }
        for name, side in (("a", found.a), ("b", found.b))
    }
    return {
        **sides,
        "score": found.score.as_json(),
        "auc": None if found.auc is None else found.auc.as_json(),
        "steps_to_threshold": None if found.steps is None else found.steps.as_json(),
        "threshold": found.threshold,
        "reached": list(found.reached),
        "notes": list(found.notes),
        "verdicts": [verdict(part, "A", "B") for part in (found.score, found.auc, found.steps) if part is not None],
    }
