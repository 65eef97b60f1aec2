"""The status and results of a sweep, as JSON and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from gymlab.campaigns.summary import estimate_seeds, format_interval
from gymlab.campaigns.sweep.plan import SweepPlan
from gymlab.campaigns.sweep.store import Trial, best_trial, has_ended
from gymlab.core.types import Json

_TABLE_ROWS = 30


def status_word(plan: SweepPlan, trials: Sequence[Trial]) -> str:
    """finished, running (a living process owns a trial) or interrupted."""
    if len(trials) >= plan.trials and all(trial.ended for trial in trials):
        return "finished"
    owned = any(trial.state == "running" and not has_ended(trial.owner) for trial in trials)
    return "running" if owned else "interrupted"


class BestTrialRecord(TypedDict):
    """The best trial of a sweep."""

    trial: int
    value: float | None
    low: float | None
    high: float | None
    overrides: list[str]
    runs: list[str]


class SweepStatusRecord(TypedDict):
    """`gymlab sweep status --json`."""

    sweep: str
    recipe: str
    status: str
    method: str
    prune: str
    seeds: list[int]
    trials: dict[str, int]  # how many: total, and in each state
    best: BestTrialRecord | None


class SweepResultsRecord(SweepStatusRecord):
    """`gymlab sweep results --json`."""

    space: list[str]
    rows: list[dict[str, Json]]  # the trials


def status(plan: SweepPlan, trials: Sequence[Trial]) -> SweepStatusRecord:
    """`gymlab sweep status --json`."""
    counts = Counter(trial.state for trial in trials)
    best = best_trial(trials)
    return {
        "sweep": plan.name,
        "recipe": plan.title,
        "status": status_word(plan, trials),
        "method": plan.method,
        "prune": plan.prune,
        "seeds": list(plan.seeds),
        "trials": {
            "total": plan.trials,
            **{state: counts.get(state, 0) for state in ("finished", "pruned", "failed", "running")},
            "waiting": plan.trials - sum(counts.values()) + counts.get("waiting", 0),
        },
        "best": None if best is None else _best_json(best),
    }


def _best_json(trial: Trial) -> BestTrialRecord:
    score = estimate_seeds(trial.scores)
    return {
        "trial": trial.index,
        "value": trial.value,
        "low": None if score is None else score.low,
        "high": None if score is None else score.high,
        "overrides": list(trial.overrides),
        "runs": list(trial.runs),
    }


def results(plan: SweepPlan, trials: Sequence[Trial]) -> SweepResultsRecord:
    """`gymlab sweep results --json`: the status, and every trial in the order of its index."""
    return {**status(plan, trials), "space": list(plan.space), "rows": [trial.as_json() for trial in trials]}


def format_headline(plan: SweepPlan, trials: Sequence[Trial]) -> str:
    """The status in one line."""
    counts = status(plan, trials)["trials"]
    parts = [
        f"{counts[name]} {name}" for name in ("finished", "pruned", "failed", "running", "waiting") if counts[name]
    ]
    return f"{plan.name}: {plan.title}, {plan.trials} trials by {plan.method}: {', '.join(parts)}"


def format_table(plan: SweepPlan, trials: Sequence[Trial], limit: int = _TABLE_ROWS) -> list[str]:
    """The trials as a table, the best first."""
    order = sorted(trials, key=lambda trial: (trial.state != "finished", -(trial.value or float("-inf")), trial.index))
    listed = order[:limit]
    names = [", ".join(trial.overrides) or "the recipe itself" for trial in listed]
    width = max([len(name) for name in names], default=0)
    lines = [f"  {'trial':>5}  {'settings':{width}}  {'state':9} {'score':>9}  95 % interval" if listed else ""]
    for name, trial in zip(names, listed, strict=True):
        found = estimate_seeds(trial.scores)
        score = "-" if trial.value is None else f"{trial.value:.2f}"
        last = f"{found.low:.4g} to {found.high:.4g}" if found is not None and len(trial.scores) > 1 else trial.reason
        lines.append(f"  {trial.index:>5}  {name:{width}}  {trial.state:9} {score:>9}  {last[:80]}".rstrip())
    if len(order) > limit:
        lines.append(f"  and {len(order) - limit} more: gymlab sweep results {plan.name} --json")
    return lines


def format_best(plan: SweepPlan, trials: Sequence[Trial]) -> list[str]:
    """The best trial, and that its score is biased upwards."""
    best = best_trial(trials)
    if best is None:
        return ["no trial has finished yet"]
    score = estimate_seeds(best.scores)
    interval = f" {format_interval(score)}" if score is not None and len(best.scores) > 1 else ""
    settings = " ".join(best.overrides) or "the recipe"
    return [
        f"best: trial {best.index}, score {best.value:.4g}{interval} over {format_seed_count(plan)}: {settings}",
        f"  chosen from {len(trials)}, so its score is too good on average: compare it on fresh seeds",
    ]


def format_seed_count(plan: SweepPlan) -> str:
    return f"{len(plan.seeds)} seed{'s' * (len(plan.seeds) > 1)}"
