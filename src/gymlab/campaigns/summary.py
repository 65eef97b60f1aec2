"""Scores of several seeds as one number with its interval, and the summary of a group of runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gymlab.core.format import format_count
from gymlab.core.statistics import Estimate, estimate
from gymlab.core.types import Json
from gymlab.recipes.keys import read_settings
from gymlab.reports.run_facts import read_facts
from gymlab.runs.groups import Group, Member
from gymlab.runs.paths import RunPaths

NOT_BEGUN = "not begun"


def estimate_seeds(scores: Sequence[float]) -> Estimate | None:
    """The interquartile mean over seeds and its 95 % bootstrap interval; None without scores."""
    return estimate(scores) if scores else None


def format_interval(score: Estimate) -> str:
    return f"[{score.low:.4g}, {score.high:.4g}]"


def format_score(score: Estimate | None, seeds: int) -> str:
    """`value [low, high]`; one seed has no interval: every resample of it is that seed again."""
    if score is None:
        return "-"
    return str(score) if seeds > 1 else f"{score.value:.4g} (1 seed)"


def score_json(score: Estimate | None, *, interval: bool = True) -> dict[str, float | None] | None:
    if score is None:
        return None
    return {"iqm": score.value, "low": score.low if interval else None, "high": score.high if interval else None}


class MemberResult(NamedTuple):
    """One member of a group, read from its run folder."""

    member: Member
    status: str
    stop_reason: str | None = None
    env_steps: int = 0
    seconds: float = 0.0
    score: float | None = None  # final evaluation, on fresh episodes
    solved: bool | None = None  # None: no threshold is known
    steps_to_threshold: int | None = None  # None: not reached

    def as_json(self) -> dict[str, Json]:
        member = self.member
        facts: dict[str, Json] = {"run_id": member.run_id, "seed": member.seed, "overrides": list(member.overrides)}
        return facts | {name: value for name, value in self._asdict().items() if name != "member"}


class GroupSummary(NamedTuple):
    """All members of a group as a few numbers."""

    score: Estimate | None  # interquartile mean of the members with a score
    scored: int  # members with a score
    solved: int | None  # members; None: no threshold is known
    steps_to_threshold: float | None  # median; None if fewer than half reached it
    env_steps: int
    seconds: float  # of the wall clock

    @property
    def steps_per_second(self) -> float:
        return self.env_steps / self.seconds if self.seconds > 0 else 0.0

    def as_json(self) -> dict[str, Json]:
        return self._asdict() | {
            "score": score_json(self.score),
            "steps_per_second": round(self.steps_per_second, 1),
        }


def read_member(runs_root: Path, member: Member) -> MemberResult:
    paths = RunPaths(runs_root / member.run_id)
    if not paths.exists:
        return MemberResult(member, NOT_BEGUN)
    facts = read_facts(paths, read_settings(paths.inside(paths.recipe)), metrics=())
    status = facts.status
    return MemberResult(
        member,
        str(status["status"]),
        status.get("stop_reason"),
        int(facts.clock.get("env_steps") or 0),
        float(facts.clock.get("seconds") or 0.0),
        facts.summary.get("score"),
        facts.summary.get("solved"),
        facts.score.steps_to_threshold,
    )


def summarize(results: Sequence[MemberResult], env_steps: int, seconds: float) -> GroupSummary:
    """`env_steps` and `seconds` are of this session alone: resumed members have trained more in all."""
    scores = member_scores(results)
    verdicts = [result.solved for result in results if result.solved is not None]
    reached = [result.steps_to_threshold for result in results]
    steps_or_inf = [math.inf if steps is None else float(steps) for steps in reached]
    median = statistics.median(steps_or_inf) if steps_or_inf else math.inf
    return GroupSummary(
        estimate_seeds(scores),
        len(scores),
        sum(verdicts) if verdicts else None,
        median if median < math.inf else None,
        env_steps,
        seconds,
    )


def member_scores(results: Sequence[MemberResult]) -> list[float]:
    """The scores of the members that have one."""
    return [result.score for result in results if result.score is not None]


def by_variation(results: Sequence[MemberResult]) -> dict[str, list[MemberResult]]:
    """The members grouped by their overrides: those of one variation differ in their seed alone."""
    found: dict[str, list[MemberResult]] = {}
    for result in results:
        found.setdefault(", ".join(result.member.overrides), []).append(result)
    return found


def format_group(group: Group, results: Sequence[MemberResult], summary: GroupSummary) -> list[str]:
    """A table of the members, their summary, and the command to run next."""
    lines = [f"{group.name}: {len(results)} members", *_format_members(results)]
    variations = by_variation(results)
    for label, varied in variations.items():
        scores = member_scores(varied)
        if len(variations) > 1 and scores:
            lines.append(f"{label}: interquartile mean {estimate_seeds(scores)} ({len(scores)} members)")
    if summary.score is not None and len(variations) == 1:
        lines.append(f"return: interquartile mean {summary.score} (95 % interval, {summary.scored} members)")
    if summary.solved is not None:
        reached = summary.steps_to_threshold
        when = (
            "" if reached is None else f"; median {format_count(int(reached), brief=True)} env_steps to the threshold"
        )
        lines.append(f"solved: {summary.solved} of {len(results)}{when}")
    speed = f"{format_count(int(summary.steps_per_second), brief=True)} a second"
    lines.append(f"{format_count(summary.env_steps, brief=True)} env_steps in {summary.seconds:.1f} s: {speed}")
    best = max((each for each in results if each.score is not None), key=lambda each: each.score or 0.0, default=None)
    if any(result.status != "finished" for result in results):
        lines.append(f"next: gymlab resume {group.name}")
    elif best is not None:
        lines.append(f"next: gymlab runs show {best.member.run_id}")
    return lines


def _format_members(results: Sequence[MemberResult]) -> list[str]:
    width = max(len(result.member.label) for result in results)
    names = f"{'return':>9} {'solved':>7} {'env_steps':>10} {'to goal':>8} {'seconds':>8}"
    lines = [f"  {'member':{width}}  {'status':9} {names}"]
    for result in results:
        score = "-" if result.score is None else f"{result.score:.2f}"
        verdict = {True: "yes", False: "no", None: "-"}[result.solved]
        reached = "-" if result.steps_to_threshold is None else format_count(result.steps_to_threshold, brief=True)
        lines.append(
            f"  {result.member.label:{width}}  {result.status:9} {score:>9} {verdict:>7} "
            f"{result.env_steps:>10} {reached:>8} {result.seconds:>8.1f}"
        )
    return lines
