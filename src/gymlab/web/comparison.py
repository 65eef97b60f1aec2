"""The tables of a comparison. Columns are numbered: what runs are called never becomes a key of the page's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gymlab.core.format import format_count, format_duration
from gymlab.metrics.catalogue import written
from gymlab.reports import compare as comparing
from gymlab.reports.run_facts import Facts, read_facts
from gymlab.reports.sections import result_data, yes_or_no
from gymlab.web.view import LiveRun, plain_text

_HEADS = ("run", "score/auc", "to threshold", "solved", "greedy", "sampled", "env_steps", "time", "steps/s")


class TableContent(NamedTuple):
    """What `ui.table` takes."""

    columns: list[dict[str, Any]]
    rows: list[dict[str, Any]]


class ComparisonTables(NamedTuple):
    scores: TableContent
    settings: TableContent
    notes: list[str]


def compare(views: Sequence[LiveRun]) -> ComparisonTables:
    """Everything about runs side by side but their curves."""
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
        timed = isinstance(seconds, int | float) and isinstance(steps, int | float) and seconds > 0
        rows.append(
            [
                run.run_id,
                "-" if area is None else written("score/auc", area),
                "-" if reached is None else format_count(reached),
                yes_or_no(data["solved"], "-"),
                *(_mean(data, mode) for mode in ("greedy", "sampled")),
                format_count(steps) if isinstance(steps, int | float) else "-",
                format_duration(seconds) if timed else "-",
                format_count(steps / seconds) if timed else "-",
            ]
        )
    return _table(_HEADS, rows)


def _settings(facts: Sequence[Facts]) -> TableContent:
    differing = comparing.settings_diff(facts)
    rows = [[plain_text(key, 100), *(plain_text(value, 200) for value in values)] for key, values in differing.items()]
    return _table(("setting", *(run.run_id for run in facts)), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> TableContent:
    columns = [
        {"name": f"c{i}", "label": head, "field": f"c{i}", "align": "left" if i == 0 else "right", "sortable": True}
        for i, head in enumerate(heads)
    ]
    return TableContent(columns, [{f"c{i}": cell for i, cell in enumerate(row)} for row in rows])


def _mean(data: dict[str, Any], mode: str) -> str:
    part = (data["eval"] or {}).get(mode)
    value = part.get("mean") if isinstance(part, dict) else None
    return f"{value:.2f}" if isinstance(value, int | float) else "-"
