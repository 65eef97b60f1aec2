"""Pictures of a sweep: the score against each setting, and how much each setting matters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from gymlab.campaigns.sweep.space import Dimension
from gymlab.campaigns.sweep.store import Ledger
from gymlab.campaigns.sweep.trial import Row, best_row
from gymlab.core.errors import UserError
from gymlab.reports.plots_png import COLOURS, as_png, figure_class

_FEW = 8
_LEAST = 4  # scored trials, below which no importance is told


def importances(ledger: Ledger) -> dict[str, float]:
    """Each setting's share in what tells good trials from the rest (PED-ANOVA); {} where trials are too few."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    scored = [row for row in ledger.rows() if row.state == "finished" and row.params]
    if len(scored) < _LEAST or len({row.value for row in scored}) < 2:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get_param_importances(ledger.study, evaluator=PedAnovaImportanceEvaluator())
    except (ValueError, RuntimeError):  # one choice only, or all values alike
        return {}
    return {key: float(value) for key, value in found.items()}


def draw(ledger: Ledger, dpi: int = 150) -> bytes:
    """A PNG: importances first, then a slice for each setting."""
    space = ledger.plan.dimensions
    rows = [row for row in ledger.rows() if row.value is not None and row.params]
    if not rows:
        raise UserError(f"sweep '{ledger.plan.name}' has no scored trial yet: gymlab sweep status {ledger.plan.name}")
    count = len(space) + 1
    across = min(3, count)
    down = -(-count // across)
    figure = figure_class()(figsize=(4.6 * across, 3.6 * down), dpi=dpi, layout="constrained", facecolor="white")
    figure.suptitle(f"{ledger.plan.name}: {ledger.plan.title}", x=0.01, ha="left", fontweight="bold", parse_math=False)
    grid = list(figure.subplots(down, across, squeeze=False).flat)
    _importance(grid[0], importances(ledger))
    for axes, dimension in zip(grid[1:], space, strict=False):
        _slice(axes, dimension, rows)
    for axes in grid[count:]:
        axes.set_visible(False)
    return as_png(figure)


def _importance(axes: Any, found: dict[str, float]) -> None:
    axes.set_title("importance (PED-ANOVA)", loc="left", fontsize=10)
    if not found:
        axes.text(0.02, 0.5, f"too few different scores\n({_LEAST} at least)", transform=axes.transAxes, fontsize=9)
        axes.set_axis_off()
        return
    names = list(reversed(found))
    axes.barh(names, [found[name] for name in names], color=COLOURS[0])
    axes.set_xlim(0, 1)
    axes.tick_params(labelsize=8)


def _slice(axes: Any, dimension: Dimension, rows: Sequence[Row]) -> None:
    values = [row.params[dimension.key] for row in rows]
    places, names = _places(values)
    best = best_row(rows)
    for state, colour, label in (("pruned", "0.75", "given up"), ("finished", COLOURS[0], "finished")):
        chosen = [place for place, row in enumerate(rows) if row.state == state]
        if chosen:
            heights = [rows[place].value for place in chosen]
            axes.scatter([places[place] for place in chosen], heights, s=18, color=colour, label=label)
    if best is not None:
        axes.scatter([places[rows.index(best)]], [best.value], s=70, facecolors="none", edgecolors=COLOURS[1])
    _scale(axes, dimension, places, names)
    axes.set_title(dimension.key, loc="left", fontsize=10, parse_math=False)
    axes.set_ylabel("score", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(True, color="0.92")
    axes.set_axisbelow(True)


def _scale(axes: Any, dimension: Dimension, places: Sequence[float], names: Sequence[str]) -> None:
    """Decades for what was drawn over decades; of a few choices each one is written at the axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    decades = not names and (dimension.log or _spans_decades(places))
    if decades:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    few = sorted(set(places))
    if names:
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    elif dimension.choices and len(few) <= _FEW:
        axes.set_xticks(few, [f"{value:g}" for value in few])


def _places(values: Sequence[Any]) -> tuple[list[float], list[str]]:
    """Where values stand on the axis; names of the places where they are no numbers."""
    try:
        return [float(str(value).removeprefix("lin_")) for value in values], []
    except ValueError:
        names = list(dict.fromkeys(map(str, values)))
        return [float(names.index(str(value))) for value in values], names


def _spans_decades(places: Sequence[float]) -> bool:
    return min(places) > 0 and math.log10(max(places) / min(places)) >= 1.5
