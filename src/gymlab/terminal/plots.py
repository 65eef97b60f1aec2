"""Plots as text: sparklines, a braille plot of one line, a plot with letters for several. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gymlab.core.format import format_count, format_duration

BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of a braille cell: 4 rows, 2 columns
_OVERLAP = "*"
_CLOCK_STEPS = (10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0)


class PlotLine(NamedTuple):
    label: str
    x: np.ndarray
    y: np.ndarray


class PlotFrame(NamedTuple):
    """Size and axis of a plot."""

    width: int = 64  # of the plot area, in characters
    height: int = 12
    axis: str = "vec_steps"
    threshold: float | None = None  # the return that counts as solved: dotted, if near the values


def sparkline(values: Sequence[float] | np.ndarray, width: int = 40) -> str:
    """All finite values as one row of blocks, lowest to highest; a flat row if they are all equal."""
    array = np.asarray(values, np.float64)
    array = array[np.isfinite(array)]
    if not array.size:
        return ""
    if array.size > width:
        edges = np.linspace(0, array.size, width + 1).astype(int)
        array = np.add.reduceat(array, edges[:-1]) / np.diff(edges)
    low = array.min()
    span = np.ptp(array)
    if span <= 1e-9 * max(abs(low), 1e-12):
        return BLOCKS[3] * array.size
    return "".join(BLOCKS[place] for place in np.rint((array - low) / span * (len(BLOCKS) - 1)).astype(int))


def plot(lines: Sequence[PlotLine], frame: PlotFrame | None = None) -> list[str]:
    """A plot with axes; each of several lines has a letter, with a legend below."""
    frame = frame or PlotFrame()
    drawn = [line for line in (_finite(line) for line in lines) if line.x.size]
    if not drawn:
        return ["(nothing measured yet)"]
    window = (*_x_range(drawn), *_y_range(drawn, frame))
    cells = _braille(drawn[0], frame, window) if len(drawn) == 1 else _letters(drawn, frame, window)
    legend = [f"  {letter} {line.label}" for letter, line in zip(LETTERS, drawn, strict=False)]
    legend = legend if len(drawn) > 1 else []
    if frame.threshold is not None and window[2] <= frame.threshold <= window[3]:
        row = cells[_row_of(frame.threshold, frame, window)]
        row[:] = ["┈" if cell == " " else cell for cell in row]
        legend.append(f"  ┈ solved at {frame.threshold:g}")
    return [*_with_axes(cells, frame, window), *legend]


def ticks(low: float, high: float, most: int = 5, *, seconds: bool = False) -> list[float]:
    """At most `most` evenly spaced round numbers within a range; for seconds multiples of 10 s, 1 min, 1 h."""
    if not high > low:
        return [low]
    rough = (high - low) / max(most, 1)
    size = 10.0 ** math.floor(math.log10(rough))
    steps = [size * factor for factor in (1, 2, 2.5, 5, 10)]
    if seconds and rough > 5:
        steps = [*_CLOCK_STEPS, *(3600.0 * step for step in steps)]
    step = next((step for step in steps if step >= rough * 0.999), steps[-1])
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def tick_label(value: float, step: float) -> str:
    """A tick with as many digits as its neighbours need to differ."""
    if value != 0 and (abs(value) >= 1e5 or step < 1e-4):
        return f"{value:.3g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    text = f"{value:.{decimals + (round(step * 10**decimals, 6) % 1 > 0)}f}"
    return "0" if value == 0 else text


def _finite(line: PlotLine) -> PlotLine:
    keep = np.isfinite(line.x) & np.isfinite(line.y)
    return PlotLine(line.label, np.asarray(line.x)[keep], np.asarray(line.y)[keep])


def _x_range(lines: Sequence[PlotLine]) -> tuple[float, float]:
    low, high = float(min(line.x.min() for line in lines)), float(max(line.x.max() for line in lines))
    low = 0.0 if 0 <= low < 0.25 * high else low
    return low, high if high > low else low + 1.0


def _y_range(lines: Sequence[PlotLine], frame: PlotFrame) -> tuple[float, float]:
    """The range of the values with a small margin, extended to 0 and to the threshold if they are near."""
    low, high = float(min(line.y.min() for line in lines)), float(max(line.y.max() for line in lines))
    span = high - low
    goal = frame.threshold
    if goal is not None and low - 0.6 * span <= goal <= high + 0.6 * span:
        low, high = min(low, goal), max(high, goal)
    if not span > 1e-9 * max(abs(low), abs(high)):
        pad = 0.2 * abs(low) or 1.0
        return low - pad, high + pad
    pad = 0.04 * (high - low)
    return (0.0 if 0 <= low < 0.2 * span else low - pad), (0.0 if -0.2 * span < high <= 0 else high + pad)


PlotRange = tuple[float, float, float, float]  # x from, to; y from, to


def _braille(line: PlotLine, frame: PlotFrame, window: PlotRange) -> list[list[str]]:
    columns, rows = 2 * frame.width, 4 * frame.height
    px, py = _pixels(line, columns, rows, window)
    dots = np.zeros((rows, columns), bool)
    for i in range(len(px)):
        j = max(i - 1, 0)
        steps = max(abs(px[i] - px[j]), abs(py[i] - py[j]), 1)
        share = np.arange(steps + 1) / steps
        across = np.rint(px[j] + share * (px[i] - px[j])).astype(int)
        down = np.rint(py[j] + share * (py[i] - py[j])).astype(int)
        dots[down, across] = True
    codes = (dots.reshape(frame.height, 4, frame.width, 2) * _DOTS[None, :, None, :]).sum((1, 3))
    return [[chr(0x2800 + code) if code else " " for code in row] for row in codes]


def _letters(lines: Sequence[PlotLine], frame: PlotFrame, window: PlotRange) -> list[list[str]]:
    cells = [[" "] * frame.width for _ in range(frame.height)]
    for letter, line in zip(LETTERS, lines, strict=False):
        px, py = _pixels(line, frame.width, frame.height, window)
        across = np.arange(px.min(), px.max() + 1)
        down = np.rint(np.interp(across, px, py)).astype(int).tolist()
        for column, row, before in zip(across.tolist(), down, [down[0], *down], strict=False):
            # Fill a steep step with the line's own letter.
            for passed in range(min(row, before + 1), max(row, before - 1) + 1):
                taken = cells[passed][column]
                cells[passed][column] = letter if taken in (" ", letter) else _OVERLAP
    return cells


def _pixels(line: PlotLine, columns: int, rows: int, window: PlotRange) -> tuple[np.ndarray, np.ndarray]:
    x_low, x_high, y_low, y_high = window
    px = np.clip(np.rint((line.x - x_low) / (x_high - x_low) * (columns - 1)), 0, columns - 1).astype(int)
    py = np.clip(np.rint((y_high - line.y) / (y_high - y_low) * (rows - 1)), 0, rows - 1).astype(int)
    return px, py


def _row_of(value: float, frame: PlotFrame, window: PlotRange) -> int:
    return round((window[3] - value) / (window[3] - window[2]) * (frame.height - 1))


def _with_axes(cells: list[list[str]], frame: PlotFrame, window: PlotRange) -> list[str]:
    x_low, x_high, y_low, y_high = window
    y_ticks = ticks(y_low, y_high, max(2, frame.height // 3))
    step = y_ticks[1] - y_ticks[0] if len(y_ticks) > 1 else y_high - y_low
    labels = {_row_of(tick, frame, window): tick_label(tick, step) for tick in y_ticks}
    margin = max(map(len, labels.values()), default=0)
    body = [
        f"{labels.get(row, ''):>{margin}} {'┤' if row in labels else '│'}{''.join(line)}".rstrip()
        for row, line in enumerate(cells)
    ]
    base = ["─"] * frame.width
    names = [" "] * (frame.width + margin + 16)
    in_seconds = frame.axis == "seconds"
    for tick in ticks(x_low, x_high, max(2, frame.width // 12), seconds=in_seconds):
        column = round((tick - x_low) / (x_high - x_low) * (frame.width - 1))
        text = format_duration(tick) if in_seconds else format_count(tick)
        start = max(0, margin + 2 + column - len(text) // 2)
        if not "".join(names[max(start - 1, 0) : start + len(text) + 1]).strip():
            base[column] = "┬"
            names[start : start + len(text)] = text
    return [*body, f"{'':>{margin}} └{''.join(base)}", f"{''.join(names).rstrip()}  {frame.axis}"]
