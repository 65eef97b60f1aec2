"""Comparison of several runs: tables of scores and differing settings, mean curves with a confidence interval.

Table columns are numbered: a run's id never becomes a key of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from gymlab.core.format import format_count
from gymlab.metrics.catalogue import written
from gymlab.reports import compare as comparing
from gymlab.reports.run_facts import Facts, read_facts
from gymlab.reports.sections import ResultData, result_data, yes_or_no
from gymlab.runs.metrics_reader import Curve
from gymlab.web.live_updates import LiveRun, plain_text

_HEADS = ("run", "score/auc", "to threshold", "solved", "greedy", "sampled", "env_steps", "time", "steps/s")


class TableContent(NamedTuple):
    """Columns and rows for `ui.table`."""

    columns: list[dict[str, str | bool]]
    rows: list[dict[str, str]]


class ComparisonTables(NamedTuple):
    scores: TableContent
    settings: TableContent
    notes: list[str]


def compare(views: Sequence[LiveRun]) -> ComparisonTables:
    """The tables of a comparison."""
    facts = [read_facts(view.paths, view.settings, metrics=()) for view in views]
    if not facts:
        return ComparisonTables(TableContent([], []), TableContent([], []), ["No runs are chosen."])
    return ComparisonTables(
        _scores(facts), _settings(facts), [plain_text(note, 300) for note in comparing.notes(facts)]
    )


def _scores(facts: Sequence[Facts]) -> TableContent:
    rows = []
    for run, area in comparing.ranked(facts):
        data = result_data(run)
        reached = run.score.steps_to_threshold
        steps = data["env_steps"]
        seconds = data["seconds"]
        rows.append(
            [
                run.run_id,
                "-" if area is None else written("score/auc", area),
                "-" if reached is None else format_count(reached),
                yes_or_no(data["solved"], "-"),
                *(_mean(data, mode) for mode in ("greedy", "sampled")),
                format_count(steps) if isinstance(steps, int | float) else "-",
                *comparing.format_pace(steps, seconds),
            ]
        )
    return _table(_HEADS, rows)


def _settings(facts: Sequence[Facts]) -> TableContent:
    differing = comparing.settings_diff(facts)
    rows = [[plain_text(key, 100), *(plain_text(value, 200) for value in values)] for key, values in differing.items()]
    return _table(("setting", *(run.run_id for run in facts)), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> TableContent:
    columns: list[dict[str, str | bool]] = [
        {"name": f"c{i}", "label": head, "field": f"c{i}", "align": "left" if i == 0 else "right", "sortable": True}
        for i, head in enumerate(heads)
    ]
    return TableContent(columns, [{f"c{i}": cell for i, cell in enumerate(row)} for row in rows])


def _mean(data: ResultData, mode: str) -> str:
    part = (data["eval"] or {}).get(mode)
    value = part.get("mean") if isinstance(part, dict) else None
    return f"{value:.2f}" if isinstance(value, int | float) else "-"


_POINTS = 200
_RESAMPLES = 500


def mean_of(traces: Sequence[Curve]) -> Curve:
    """Mean curve over the range common to all runs, with the pointwise 95 % bootstrap interval.

    One run alone has no interval: its line is itself.
    """
    found = [trace for trace in traces if len(trace.x) > 1]
    if not found:
        return traces[0]
    start = max(trace.x[0] for trace in found)
    end = min(trace.x[-1] for trace in found)
    grid = np.linspace(start, max(end, start), _POINTS)
    values = np.stack([np.interp(grid, trace.x, trace.y) for trace in found])  # (runs, points)
    middle = values.mean(0)
    if len(found) == 1:
        return Curve(grid, middle, middle, middle)
    chosen = np.random.default_rng(0).integers(len(found), size=(_RESAMPLES, len(found)))
    low, high = np.quantile(values[chosen].mean(1), [0.025, 0.975], axis=0)
    return Curve(grid, middle, low, high)


def by_group(traces: Mapping[str, Curve], groups: Mapping[str, str]) -> dict[str, Curve]:
    """Mean curve of each group of runs, named with its size."""
    members: dict[str, list[Curve]] = {}
    for run_id, trace in traces.items():
        members.setdefault(groups[run_id], []).append(trace)
    return {f"{name} (n={len(found)})": mean_of(found) for name, found in members.items()}
