"""Charts as data: what ECharts draws, made of traces. Pure functions; no name from a run becomes a key here,
for the library evaluates the values of keys that begin with a colon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gymlab.metrics.metric import UNBOUNDED, Limits
from gymlab.runs.metrics_db import Histograms
from gymlab.runs.metrics_reader import Curve

COLORS = ("#4c8bc9", "#d9822b", "#3fa66b", "#c0504d", "#8e6bbf", "#a8794a", "#d471a8", "#7f8c8d", "#a3a83a", "#36a9b5")
GREY = "#8a929a"
_LINE = "rgba(128,128,128,0.25)"
_MOST_COLUMNS = 120
_BINS = 40
Options = dict[str, Any]


@dataclass(frozen=True)
class Mark:
    """A highlighted range of the x axis."""

    start: float
    end: float
    severity: str


@dataclass(frozen=True)
class Look:
    """How charts are drawn."""

    axis: str = "vec_steps"
    smooth: float = 0.0
    log: bool = False
    bounds: bool = True


@dataclass(frozen=True)
class Plot:
    """Content of one chart."""

    title: str
    lines: Mapping[str, Curve]
    limits: Limits = UNBOUNDED
    goal: float | None = None
    marks: Sequence[Mark] = field(default_factory=tuple)
    stacked: bool = False
    colors: Sequence[str] = COLORS


def line_chart(plot: Plot, look: Look) -> Options:
    """Lines with the band between their lowest and highest values; bounds as limits of the axis and as lines."""
    series: list[Options] = []
    for place, (name, trace) in enumerate(plot.lines.items()):
        color = plot.colors[place % len(plot.colors)]
        if not plot.stacked and not look.log and _spread(trace):
            series += _band(trace, color, place)
        series.append(_line(name, trace, color, look, stacked=plot.stacked))
    if series:
        series[-1] |= _lines_across(plot, look)
    return {
        "animation": False,
        "title": {"text": plot.title, "textStyle": {"fontSize": 12, "color": GREY}, "left": 4, "top": 0},
        "grid": {"left": 8, "right": 14, "top": 44 if len(plot.lines) > 1 else 28, "bottom": 4, "containLabel": True},
        "legend": {
            "show": len(plot.lines) > 1,
            "type": "scroll",
            "top": 20,
            "data": list(plot.lines),
            "textStyle": {"color": GREY, "fontSize": 10},
            "itemHeight": 8,
            "itemWidth": 14,
        },
        "tooltip": {"trigger": "axis", "confine": True, "axisPointer": {"animation": False}},
        "xAxis": {"type": "value", "min": "dataMin", "max": "dataMax", **_axis_style(), "splitLine": {"show": False}},
        "yAxis": {"type": "log" if look.log else "value", **_y_limits(plot, look), **_axis_style()},
        "series": series,
    }


def _line(name: str, trace: Curve, color: str, look: Look, *, stacked: bool) -> Options:
    shown = trace.y > 0 if look.log else np.ones(len(trace.y), bool)
    few = len(trace.x) <= 40
    return {
        "type": "line",
        "name": name,
        "data": _pairs(trace.x[shown], trace.y[shown]),
        "showSymbol": few,
        "symbolSize": 4,
        "lineStyle": {"width": 1.6, "color": color},
        "itemStyle": {"color": color},
        "z": 3,
        **({"stack": "all", "areaStyle": {"opacity": 0.35, "color": color}} if stacked else {}),
    }


def _band(trace: Curve, color: str, place: int) -> list[Options]:
    hidden = {"type": "line", "stack": f"band{place}", "symbol": "none", "silent": True, "z": 1}
    none = {"lineStyle": {"opacity": 0}, "tooltip": {"show": False}, "stackStrategy": "all"}
    return [
        {**hidden, **none, "name": f"low {place}", "data": _pairs(trace.x, trace.low)},
        {
            **hidden,
            **none,
            "name": f"high {place}",
            "data": _pairs(trace.x, trace.high - trace.low),
            "areaStyle": {"color": color, "opacity": 0.18},
        },
    ]


def _lines_across(plot: Plot, look: Look) -> Options:
    lines: list[Options] = []
    if look.bounds:
        drawn = [bound for bound in plot.limits if math.isfinite(bound) and (bound > 0 or not look.log)]
        lines += [{"yAxis": bound, "lineStyle": {"color": GREY, "type": "dotted"}} for bound in drawn]
    if plot.goal is not None:
        lines.append({"yAxis": plot.goal, "lineStyle": {"color": "#3fa66b", "type": "dashed"}})
    colors = {"error": "#c0504d", "warning": "#d9822b"}
    areas = [
        [{"xAxis": m.start, "itemStyle": {"color": colors.get(m.severity, GREY), "opacity": 0.15}}, {"xAxis": m.end}]
        for m in plot.marks
    ]
    quiet = {"silent": True, "symbol": "none", "label": {"show": False}, "animation": False}
    return {"markLine": {**quiet, "data": lines}, "markArea": {"silent": True, "data": areas}}


def _y_limits(plot: Plot, look: Look) -> Options:
    """The finite bounds of the metric as limits of the y axis."""
    if not look.bounds or look.log:
        return {"scale": True, "min": None, "max": None}
    low, high = plot.limits
    return {
        "scale": True,
        "min": low if math.isfinite(low) else None,
        "max": high if math.isfinite(high) else None,
    }


def _axis_style() -> Options:
    label = {"color": GREY, "fontSize": 10, "hideOverlap": True}
    return {
        "axisLabel": label,
        "axisLine": {"lineStyle": {"color": GREY}},
        "splitLine": {"lineStyle": {"color": _LINE}},
    }


def _spread(trace: Curve) -> bool:
    return len(trace.x) > 1 and bool((trace.high > trace.low).any())


def _pairs(x: np.ndarray, y: np.ndarray) -> list[list[float]]:
    """Rounded to five digits, which halves the bytes sent."""
    with np.errstate(divide="ignore"):
        digits = 10.0 ** np.clip(4 - np.floor(np.log10(np.abs(y))), -300, 300)
    rounded = np.where(y == 0, 0.0, np.round(y * digits) / digits)
    return [list(pair) for pair in zip(np.round(x, 3).tolist(), rounded.tolist(), strict=True)]


def heat_map(found: Histograms, title: str) -> Options:
    """Histograms over time as a heat map: one column per histogram, on common bins."""
    edges, shares = on_common_bins(found)
    columns = np.linspace(0, len(shares) - 1, min(len(shares), _MOST_COLUMNS)).astype(int).tolist()
    cells = [
        [place, row, float(f"{shares[column, row]:.3g}")]
        for place, column in enumerate(columns)
        for row in range(shares.shape[1])
        if shares[column, row] > 0
    ]
    middles = (edges[:-1] + edges[1:]) / 2 if len(edges) else edges
    category = {"type": "category", **_axis_style(), "splitLine": {"show": False}}
    return {
        "animation": False,
        "title": {"text": title, "textStyle": {"fontSize": 12, "color": GREY}, "left": 4, "top": 0},
        "grid": {"left": 8, "right": 14, "top": 28, "bottom": 4, "containLabel": True},
        "tooltip": {"confine": True},
        "xAxis": {**category, "data": [f"{found.at[column]:.6g}" for column in columns]},
        "yAxis": {**category, "data": [f"{middle:.3g}" for middle in middles]},
        "visualMap": {
            "show": False,
            "min": 0,
            "max": float(shares.max()) if shares.size else 1.0,
            "inRange": {"color": ["rgba(76,139,201,0.08)", "#4c8bc9", "#d9822b"]},
        },
        "series": [{"type": "heatmap", "name": "share", "data": cells, "progressive": 0}],
    }


def on_common_bins(found: Histograms) -> tuple[np.ndarray, np.ndarray]:
    """(bins + 1,) edges and (R, bins) shares: counts spread evenly within the bins they were taken in."""
    if not len(found.counts):
        return np.empty(0), np.empty((0, 0))
    low, high = float(found.edges.min()), float(found.edges.max())
    high = high if high > low else low + 1.0
    bins = min(_BINS, max(found.counts.shape[1], 1))
    edges = np.linspace(low, high, bins + 1)
    shares = np.empty((len(found.counts), bins))
    for row, (own, share) in enumerate(zip(found.edges, found.shares, strict=True)):
        total = np.concatenate([[0.0], np.cumsum(share)])
        shares[row] = np.diff(np.interp(edges, own, total, left=0.0, right=total[-1]))
    return edges, shares


def time_line(rows: Sequence[tuple[str, Mark]], end: float) -> Options:
    """Alert timeline: a bar from the first to the last failing update of each alert."""
    colors = {"error": "#c0504d", "warning": "#d9822b"}
    series = [
        {
            "type": "line",
            "name": name,
            "data": [[mark.start, place], [max(mark.end, mark.start), place]],
            "lineStyle": {"width": 8, "color": colors.get(mark.severity, GREY), "cap": "round"},
            "itemStyle": {"color": colors.get(mark.severity, GREY)},
            "symbolSize": 9,
        }
        for place, (name, mark) in enumerate(rows)
    ]
    return {
        "animation": False,
        "grid": {"left": 8, "right": 14, "top": 8, "bottom": 4, "containLabel": True},
        "tooltip": {"confine": True},
        "xAxis": {"type": "value", "min": 0, "max": end or None, **_axis_style()},
        "yAxis": {"type": "category", "data": [name for name, _ in rows], **_axis_style()},
        "series": series,
    }


def bars(values: Mapping[str, float], unit: str) -> Options:
    """Horizontal bar chart."""
    return {
        "animation": False,
        "grid": {"left": 8, "right": 50, "top": 4, "bottom": 4, "containLabel": True},
        "xAxis": {"type": "value", "name": unit, **_axis_style()},
        "yAxis": {"type": "category", "inverse": True, "data": list(values), **_axis_style()},
        "series": [
            {
                "type": "bar",
                "data": [float(f"{value:.4g}") for value in values.values()],
                "itemStyle": {"color": COLORS[0]},
                "label": {"show": True, "position": "right", "color": GREY, "fontSize": 10},
            }
        ],
    }
