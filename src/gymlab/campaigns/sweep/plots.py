"""Plots of a sweep: the importance of each setting (PED-ANOVA), and the score against each setting."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gymlab.campaigns.sweep.space import Dimension, Value
from gymlab.campaigns.sweep.store import Trial, TrialStore, best_trial
from gymlab.core.errors import UserError
from gymlab.reports.plots_png import COLOURS, as_png, figure_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_TICKS = 8
_MIN_SCORED = 4  # trials, below which no importance is computed


def importances(store: TrialStore) -> dict[str, float]:
    """Each setting's share of the difference between good and other trials (PED-ANOVA); {} with too few trials."""
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    scored = [trial for trial in store.trials() if trial.state == "finished" and trial.params]
    if len(scored) < _MIN_SCORED or len({trial.value for trial in scored}) < 2:
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = get_param_importances(store.study, evaluator=PedAnovaImportanceEvaluator())
    except (ValueError, RuntimeError):  # one choice only, or all values alike
        return {}
    return {key: float(value) for key, value in found.items()}


def draw(store: TrialStore, dpi: int = 150) -> bytes:
    """A PNG: importances first, then a slice for each setting."""
    space = store.plan.dimensions
    trials = [trial for trial in store.trials() if trial.value is not None and trial.params]
    if not trials:
        raise UserError(f"sweep '{store.plan.name}' has no scored trial yet: gymlab sweep status {store.plan.name}")
    count = len(space) + 1
    across = min(3, count)
    down = -(-count // across)
    figure = figure_class()(figsize=(4.6 * across, 3.6 * down), dpi=dpi, layout="constrained", facecolor="white")
    figure.suptitle(f"{store.plan.name}: {store.plan.title}", x=0.01, ha="left", fontweight="bold", parse_math=False)
    grid = list(figure.subplots(down, across, squeeze=False).flat)
    _draw_importances(grid[0], importances(store))
    for axes, dimension in zip(grid[1:], space, strict=False):
        _draw_slice(axes, dimension, trials)
    for axes in grid[count:]:
        axes.set_visible(False)
    return as_png(figure)


def _draw_importances(axes: Axes, found: dict[str, float]) -> None:
    axes.set_title("importance (PED-ANOVA)", loc="left", fontsize=10)
    if not found:
        axes.text(
            0.02, 0.5, f"too few different scores\n({_MIN_SCORED} at least)", transform=axes.transAxes, fontsize=9
        )
        axes.set_axis_off()
        return
    names = list(reversed(found))
    axes.barh(names, [found[name] for name in names], color=COLOURS[0])
    axes.set_xlim(0, 1)
    axes.tick_params(labelsize=8)


def _draw_slice(axes: Axes, dimension: Dimension, trials: Sequence[Trial]) -> None:
    positions, names = _positions([trial.params[dimension.key] for trial in trials])
    best = best_trial(trials)
    for state, colour, label in (("pruned", "0.75", "pruned"), ("finished", COLOURS[0], "finished")):
        points = [
            (position, trial.value) for position, trial in zip(positions, trials, strict=True) if trial.state == state
        ]
        if points:
            where, values = zip(*points, strict=True)
            axes.scatter(where, values, s=18, color=colour, label=label)
    if best is not None and best.value is not None:
        axes.scatter([positions[trials.index(best)]], [best.value], s=70, facecolors="none", edgecolors=COLOURS[1])
    _set_scale(axes, dimension, positions, names)
    axes.set_title(dimension.key, loc="left", fontsize=10, parse_math=False)
    axes.set_ylabel("score", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(True, color="0.92")
    axes.set_axisbelow(True)


def _set_scale(axes: Axes, dimension: Dimension, positions: Sequence[float], names: Sequence[str]) -> None:
    """A logarithmic axis for values that span decades; a tick for each of a few choices."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    decades = not names and (dimension.log or _spans_decades(positions))
    if decades:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    ticks = sorted(set(positions))
    if names:
        axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    elif dimension.choices and len(ticks) <= _MAX_TICKS:
        axes.set_xticks(ticks, [f"{value:g}" for value in ticks])


def _positions(values: Sequence[Value]) -> tuple[list[float], list[str]]:
    """Positions of values on the axis; if they are not numbers, also the names of the positions 0, 1, ..."""
    try:
        return [float(str(value).removeprefix("lin_")) for value in values], []
    except ValueError:
        names = list(dict.fromkeys(map(str, values)))
        return [float(names.index(str(value))) for value in values], names


def _spans_decades(values: Sequence[float]) -> bool:
    return min(values) > 0 and math.log10(max(values) / min(values)) >= 1.5
