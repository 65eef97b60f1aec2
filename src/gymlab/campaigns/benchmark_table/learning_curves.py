"""Learning curves of one row as a small PNG: each seed thin, their interquartile mean thick."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gymlab.campaigns.benchmark_table.record import Record
from gymlab.core.format import format_count
from gymlab.core.statistics import iqm
from gymlab.reports.plots_png import COLOURS, as_png, figure_class

_GRID_POINTS = 100


def middle(records: Sequence[Record]) -> tuple[np.ndarray, np.ndarray]:
    """The interquartile mean over seeds of the evaluation curves; a run that ended keeps its last value."""
    curves = [np.array(record.curve, float) for record in records if record.curve]
    if not curves:
        return np.empty(0), np.empty(0)
    grid = np.linspace(max(curve[0, 0] for curve in curves), max(curve[-1, 0] for curve in curves), _GRID_POINTS)
    return grid, iqm(np.stack([np.interp(grid, curve[:, 0], curve[:, 1]) for curve in curves], axis=-1))


def draw(records: Sequence[Record], title: str, mark: float | None) -> bytes:
    """The picture of a row."""
    figure = figure_class()(figsize=(6, 3), dpi=80, layout="constrained", facecolor="white")
    from matplotlib.ticker import FuncFormatter

    axes = figure.subplots()
    for record in records:
        if record.curve:
            axes.plot(*zip(*record.curve, strict=True), color=COLOURS[0], linewidth=0.8, alpha=0.35)
    axes.plot(*middle(records), color=COLOURS[0], linewidth=2)
    if mark is not None:
        axes.axhline(mark, color="#6E7781", linewidth=1, linestyle=(0, (4, 3)))
    axes.set_title(title, loc="left", fontsize=10, parse_math=False)
    axes.set_xlabel("env_steps", fontsize=8)
    axes.tick_params(labelsize=8, length=0)
    axes.grid(True, color="#E6E8EB", linewidth=0.8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: format_count(x)))
    for spine in axes.spines.values():
        spine.set_visible(False)
    return as_png(figure)
