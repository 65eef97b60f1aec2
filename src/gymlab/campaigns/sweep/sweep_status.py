"""A sweep for people and for programs: how far it is, its trials, its best."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gymlab.campaigns.sweep.plan import Plan
from gymlab.campaigns.sweep.store import is_gone
from gymlab.campaigns.sweep.trial import Row, best_row
from gymlab.core.statistics import Estimate, estimate

_SHOWN = 30  # trials of a table


def state_of(plan: Plan, rows: Sequence[Row]) -> str:
    """finished, running or interrupted: running while somebody has a trial."""
    if len(rows) >= plan.trials and all(row.ended for row in rows):
        return "finished"
    return "running" if any(row.state == "running" and not is_gone(row.owner) for row in rows) else "interrupted"


def interval(row: Row) -> Estimate | None:
    """A finished trial's score over its seeds."""
    return estimate(row.scores) if row.scores else None


def status(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """A few facts, the same for a person, a program and an agent."""
    counts = Counter(row.state for row in rows)
    best = best_row(rows)
    return {
        "sweep": plan.name,
        "recipe": plan.title,
        "status": state_of(plan, rows),
        "method": plan.method,
        "prune": plan.prune,
        "seeds": list(plan.seeds),
        "trials": {
            "total": plan.trials,
            **{state: counts.get(state, 0) for state in ("finished", "pruned", "failed", "running")},
            "waiting": plan.trials - sum(counts.values()) + counts.get("waiting", 0),
        },
        "best": None if best is None else _brief(best),
    }


def _brief(row: Row) -> dict[str, Any]:
    found = interval(row)
    return {
        "trial": row.index,
        "value": row.value,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "overrides": list(row.overrides),
        "runs": list(row.runs),
    }


def results(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """Everything: the status, and every trial in the order they were drawn in."""
    return {**status(plan, rows), "space": list(plan.space), "rows": [row.as_json() for row in rows]}


def headline(plan: Plan, rows: Sequence[Row]) -> str:
    """One line."""
    told = status(plan, rows)
    counts = told["trials"]
    parts = [
        f"{counts[name]} {name}" for name in ("finished", "pruned", "failed", "running", "waiting") if counts[name]
    ]
    return f"{plan.name}: {plan.title}, {plan.trials} trials by {plan.method}: {', '.join(parts)}"


def table(plan: Plan, rows: Sequence[Row], most: int = _SHOWN) -> list[str]:
    """The best trials first, then the others, as text."""
    order = sorted(rows, key=lambda row: (row.state != "finished", -(row.value or float("-inf")), row.index))
    shown = order[:most]
    names = [", ".join(row.overrides) or "the recipe itself" for row in shown]
    width = max([len(name) for name in names], default=0)
    lines = [f"  {'trial':>5}  {'settings':{width}}  {'state':9} {'score':>9}  95 % interval" if shown else ""]
    for name, row in zip(names, shown, strict=True):
        found = interval(row)
        score = "-" if row.value is None else f"{row.value:.2f}"
        many = found is not None and len(row.scores) > 1
        more = f"{found.low:.4g} to {found.high:.4g}" if many and found is not None else row.reason
        lines.append(f"  {row.index:>5}  {name:{width}}  {row.state:9} {score:>9}  {more[:80]}".rstrip())
    if len(order) > most:
        lines.append(f"  and {len(order) - most} more: gymlab sweep results {plan.name} --json")
    return lines


def best_lines(plan: Plan, rows: Sequence[Row]) -> list[str]:
    """The best trial and what to do with it."""
    best = best_row(rows)
    if best is None:
        return ["no trial has finished yet"]
    found = interval(best)
    told = f" [{found.low:.4g}, {found.high:.4g}]" if found is not None and len(best.scores) > 1 else ""
    seeds = f"{len(plan.seeds)} seed{'s' * (len(plan.seeds) > 1)}"
    given = " ".join(best.overrides) or "the recipe"
    return [
        f"best: trial {best.index}, score {best.value:.4g}{told} over {seeds}: {given}",
        f"  chosen from {len(rows)}, so its score is too good on average: compare it on fresh seeds",
    ]


def variant_name(plan: Plan) -> str:
    """A name for the best trial's recipe, after the sweep's."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", plan.name).strip("-")
    return name if name[:1].isalpha() else f"sweep-{name}"


def provenance(plan: Plan, rows: Sequence[Row], row: Row) -> list[str]:
    """Where a recipe comes from, for its first lines."""
    found = interval(row)
    told = f"{found}" if found is not None else "unknown"
    seeds = f"{len(plan.seeds)} seed{'s' * (len(plan.seeds) > 1)}"
    return [
        f"trial {row.index} of {len(rows)} of sweep {plan.name} ({plan.method}, {plan.created[:10]}) of {plan.title}",
        f"score: interquartile mean {told} (95 %), {seeds}; chosen as the best, so not confirmed",
        f"changed: {' '.join(row.overrides)}",
    ]
