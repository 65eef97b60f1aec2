"""Curves as a PNG, with matplotlib (extra `plot`)."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from gymlab.core.errors import UserError
from gymlab.core.format import format_count, format_duration
from gymlab.metrics.catalogue import metric
from gymlab.metrics.metric import Limits
from gymlab.reports import compare
from gymlab.reports.run_facts import Facts
from gymlab.reports.sections import return_metrics
from gymlab.runs.metrics_reader import Curve, smooth_curve
from gymlab.terminal.plots import ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

# The Okabe-Ito palette, distinguishable with colour blindness; darker colours first, for a white background.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C6D31")
_INK = "#24292F"
_GREY = "#6E7781"
_GRID = "#E6E8EB"
_LOG_RATIO = 300.0  # of the largest value to the median, above which an axis is logarithmic
_DECADES = 5  # that a logarithmic axis shows at least, below its largest value


class Panel(NamedTuple):
    """One metric of one or several runs."""

    name: str
    curves: Sequence[tuple[str, Curve]]  # label, curve
    threshold: float | None = None
    limits: Limits | None = None  # what the metric can be, where known
    log: bool = False


OVERVIEW = ("opt/entropy", "opt/approx_kl", "opt/explained_variance", "opt/value_loss", "opt/grad_norm")


def needs_log_axis(curves: Sequence[Curve]) -> bool:
    """Whether a few large values would flatten all others on a linear axis."""
    values = np.concatenate([curve.y for curve in curves]) if curves else np.empty(0)
    return bool(values.size and values.min() >= 0 and values.max() > _LOG_RATIO * max(np.median(values), 1e-300))


def overview(run: Facts, limits: Mapping[str, Limits]) -> list[Panel]:
    """A run's returns, trained and evaluated, and how its optimisation went."""
    training, judged = return_metrics(run)
    found = run.measured.curves
    both = [(label, found[name]) for label, name in (("training", training), ("evaluation", judged)) if name in found]
    shown = [name for name in OVERVIEW if name in found and len(found[name])]
    return [
        Panel(training, both, run.solved_at, limits.get(training)),
        *(
            Panel(name, [("training", found[name])], None, limits.get(name), needs_log_axis([found[name]]))
            for name in shown
        ),
    ]


def side_by_side(runs: Sequence[Facts], names: Sequence[str], limits: Mapping[str, Limits]) -> list[Panel]:
    """One panel per metric with all runs in it."""
    goals = {run.solved_at for run in runs}
    goal = goals.pop() if len(goals) == 1 else None
    panels = []
    for name in names:
        curves = [compare.curve_of(run, name) for run in runs]
        labels = [compare.label(run, runs) for run in runs]
        shown = goal if metric(name).bounds == "return" else None
        panels.append(
            Panel(name, list(zip(labels, curves, strict=True)), shown, limits.get(name), needs_log_axis(curves))
        )
    return panels


def draw(panels: Sequence[Panel], title: str, *, smooth: float = 0.0, dpi: int = 150) -> bytes:
    """A PNG with one panel per metric, in up to two columns."""
    across = 1 if len(panels) == 1 else 2
    down = -(-len(panels) // across)
    width, height = (9.0, 4.8) if across == 1 else (13.0, 3.5 * down + 0.7)
    figure = figure_class()(figsize=(width, height), dpi=dpi, layout="constrained", facecolor="white")
    cast("ConstrainedLayoutEngine", figure.get_layout_engine()).set(w_pad=0.15, h_pad=0.12)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=_INK, parse_math=False)
    grid = figure.subplots(down, across, squeeze=False)
    colours = _colours(panels)
    for place, axes in enumerate(grid.flat):
        if place < len(panels):
            _panel(axes, panels[place], colours, smooth)
        else:
            axes.set_visible(False)
    if len(colours) > 1:
        handles = {
            text: line for axes in grid.flat for line, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower left",
            ncols=min(4, len(handles)),
            frameon=False,
            fontsize=9,
            labelcolor=_INK,
        )
    return as_png(figure)


def figure_class() -> type[Figure]:
    """Matplotlib's Figure; UserError with the command to install it."""
    try:
        from matplotlib.figure import Figure as FigureClass
    except ImportError as error:
        raise UserError("pictures need an extra package: pip install 'gymlab[plot]'") from error
    return FigureClass


def as_png(figure: Figure) -> bytes:
    """A PNG; the same figure always gives the same bytes."""
    target = io.BytesIO()
    figure.savefig(target, format="png", metadata={"Software": "gymlab"})
    return target.getvalue()


def _colours(panels: Sequence[Panel]) -> Mapping[str, str]:
    labels = dict.fromkeys(label for panel in panels for label, _ in panel.curves)
    return {label: COLOURS[place % len(COLOURS)] for place, label in enumerate(labels)}


def _panel(axes: Axes, panel: Panel, colours: Mapping[str, str], smooth: float) -> None:
    for label, curve in panel.curves:
        if not len(curve):
            continue
        colour = colours[label]
        few = len(curve) <= 30
        calm = smooth_curve(curve, smooth)
        if smooth > 0:
            axes.plot(curve.x, curve.y, color=colour, linewidth=0.8, alpha=0.25)
        elif (curve.high > curve.low).any():
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        mark: dict[str, Any] = (
            {"marker": "o", "markersize": 4.5, "markeredgecolor": "white", "markeredgewidth": 0.7} if few else {}
        )
        axes.plot(calm.x, calm.y, color=colour, linewidth=1.7, label=label, solid_capstyle="round", **mark)
    if panel.threshold is not None:
        axes.axhline(panel.threshold, color=_GREY, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
        axes.set_title(f"dashed: solved at {panel.threshold:g}", loc="right", fontsize=8, color=_GREY)
    _style_axes(axes, panel)


def _style_axes(axes: Axes, panel: Panel) -> None:
    """Titles, ticks, grid and limits of an axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis = next((curve.axis for _, curve in panel.curves), "vec_steps")
    axes.set_title(panel.name, loc="left", fontsize=11, color=_INK, fontweight="bold", parse_math=False)
    axes.set_xlabel(axis, fontsize=9, color=_GREY)
    axes.set_ylabel(metric(panel.name).unit, fontsize=9, color=_GREY)
    if not panel.log:
        axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.tick_params(labelsize=9, colors=_INK, length=0)
    axes.grid(True, color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    left, right = axes.get_xlim()
    if 0 < left < 0.25 * right:
        axes.set_xlim(left=-0.01 * right)  # runs begin at 0, whatever was measured first
    axes.set_xticks(ticks(*axes.get_xlim(), 6, seconds=axis == "seconds"))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: format_duration(x) if axis == "seconds" else format_count(x))
    )
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(_GREY)
    if panel.log:
        _set_log_scale(axes, [curve for _, curve in panel.curves])
    else:
        _clip_to_limits(axes, panel.limits)


def _set_log_scale(axes: Axes, curves: Sequence[Curve]) -> None:
    """A logarithmic axis over a limited number of decades: a rate that decays to 0 would need arbitrarily many."""
    seen = [curve.y[curve.y > 0] for curve in curves if (curve.y > 0).any()]
    high = max(values.max() for values in seen)
    least = min(values.min() for values in seen)
    usual = min(float(np.median(values)) for values in seen)
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(max(least, min(usual / 100, high / 10**_DECADES)) / 1.5, high * 1.5)
    axes.yaxis.minorticks_off()
    if not axes.get_title(loc="right"):
        axes.set_title("logarithmic", loc="right", fontsize=8, color=_GREY)


def _clip_to_limits(axes: Axes, limits: Limits | None) -> None:
    """End the axis at a limit that the values come near; values beyond it, which are a bug, stay visible."""
    if limits is None:
        return
    low, high = axes.get_ylim()
    least, most = axes.dataLim.intervaly
    span = high - low
    near_low = least >= limits[0] and low < limits[0] + 0.15 * span
    near_high = most <= limits[1] and high > limits[1] - 0.15 * span
    axes.set_ylim(limits[0] - 0.03 * span if near_low else low, limits[1] + 0.03 * span if near_high else high)
