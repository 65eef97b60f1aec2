"""What a group of runs came to: one number with its interval, and how many got there."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gymlab.core.format import format_count
from gymlab.core.statistics import Estimate, estimate
from gymlab.recipes.keys import read_settings
from gymlab.reports.run_facts import read_facts
from gymlab.runs.groups import Group, Member
from gymlab.runs.paths import RunPaths

NOT_BEGUN = "not begun"


class Ending(NamedTuple):
    """One member as its folder tells it."""

    member: Member
    status: str
    stop_reason: str | None = None
    env_steps: int = 0
    seconds: float = 0.0
    score: float | None = None  # mean return of the last evaluation
    solved: bool | None = None  # None: there is no threshold
    steps_to_threshold: int | None = None  # None: not reached

    def as_json(self) -> dict[str, Any]:
        member = self.member
        facts = {"run_id": member.run_id, "seed": member.seed, "overrides": list(member.overrides)}
        return facts | {name: value for name, value in self._asdict().items() if name != "member"}


class Summary(NamedTuple):
    """Of those members that have a score."""

    score: Estimate | None  # interquartile mean and its 95 % interval
    scored: int
    solved: int | None  # members; None: there is no threshold
    steps_to_threshold: float | None  # median; None where fewer than half got there
    env_steps: int
    seconds: float  # of the wall clock

    @property
    def steps_per_second(self) -> float:
        return self.env_steps / self.seconds if self.seconds > 0 else 0.0

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {
            "score": None if self.score is None else score_json(self.score),
            "steps_per_second": round(self.steps_per_second, 1),
        }


def score_json(score: Estimate) -> dict[str, float]:
    return {"iqm": score.value, "low": score.low, "high": score.high}


def read_ending(runs_root: Path, member: Member) -> Ending:
    """What a member's folder says of it."""
    paths = RunPaths(runs_root / member.run_id)
    if not paths.exists:
        return Ending(member, NOT_BEGUN)
    facts = read_facts(paths, read_settings(paths.inside(paths.recipe)), metrics=())
    returns = facts.measured.evaluations.returns
    status = facts.status
    return Ending(
        member,
        str(status["status"]),
        status.get("stop_reason"),
        int(facts.clock.get("env_steps") or 0),
        float(facts.clock.get("seconds") or 0.0),
        float(returns[-1]) if len(returns) else None,
        None if facts.solved_at is None or not len(returns) else bool(returns[-1] >= facts.solved_at),
        facts.score.steps_to_threshold,
    )


def summarize(endings: Sequence[Ending], env_steps: int, seconds: float) -> Summary:
    """`env_steps` and `seconds` are of this session: members that go on have done more in all."""
    scores = [ending.score for ending in endings if ending.score is not None]
    verdicts = [ending.solved for ending in endings if ending.solved is not None]
    reached = [ending.steps_to_threshold for ending in endings]
    far = [float("inf") if steps is None else float(steps) for steps in reached]
    median = statistics.median(far) if far else float("inf")
    return Summary(
        estimate(scores) if scores else None,
        len(scores),
        sum(verdicts) if verdicts else None,
        median if median < float("inf") else None,
        env_steps,
        seconds,
    )


def by_variation(endings: Sequence[Ending]) -> dict[str, list[Ending]]:
    """The members that differ in their seed alone, together."""
    found: dict[str, list[Ending]] = {}
    for ending in endings:
        found.setdefault(", ".join(ending.member.overrides), []).append(ending)
    return found


def told(group: Group, endings: Sequence[Ending], summary: Summary) -> list[str]:
    """For people: every member, the whole, and what to do next."""
    lines = [f"{group.name}: {len(endings)} members", *_table(endings)]
    variations = by_variation(endings)
    for label, varied in variations.items():
        scores = [ending.score for ending in varied if ending.score is not None]
        if len(variations) > 1 and scores:
            lines.append(f"{label}: interquartile mean {estimate(scores)} ({len(scores)} members)")
    if summary.score is not None and len(variations) == 1:
        lines.append(f"return: interquartile mean {summary.score} (95 % interval, {summary.scored} members)")
    if summary.solved is not None:
        reached = summary.steps_to_threshold
        when = (
            "" if reached is None else f"; median {format_count(int(reached), brief=True)} env_steps to the threshold"
        )
        lines.append(f"solved: {summary.solved} of {len(endings)}{when}")
    speed = f"{format_count(int(summary.steps_per_second), brief=True)} a second"
    lines.append(f"{format_count(summary.env_steps, brief=True)} env_steps in {summary.seconds:.1f} s: {speed}")
    best = max((e for e in endings if e.score is not None), key=lambda e: e.score or 0.0, default=None)
    if any(ending.status != "finished" for ending in endings):
        lines.append(f"next: gymlab resume {group.name}")
    elif best is not None:
        lines.append(f"next: gymlab runs show {best.member.run_id}")
    return lines


def _table(endings: Sequence[Ending]) -> list[str]:
    width = max(len(ending.member.label) for ending in endings)
    names = f"{'return':>9} {'solved':>7} {'env_steps':>10} {'to goal':>8} {'seconds':>8}"
    lines = [f"  {'member':{width}}  {'status':9} {names}"]
    for ending in endings:
        verdict = {True: "yes", False: "no", None: "-"}[ending.solved]
        reached = "-" if ending.steps_to_threshold is None else format_count(ending.steps_to_threshold, brief=True)
        lines.append(
            f"  {ending.member.label:{width}}  {ending.status:9} {_number(ending.score):>9} {verdict:>7} "
            f"{ending.env_steps:>10} {reached:>8} {ending.seconds:>8.1f}"
        )
    return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
