"""What is known of a metric before anything is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Better = Literal["up", "down", "none"]
Fold = Literal["mean", "last", "sum", "min", "max"]
Limits = tuple[float, float]

UNBOUNDED: Limits = (-math.inf, math.inf)
POSITIVE: Limits = (0.0, math.inf)
SHARE: Limits = (0.0, 1.0)


@dataclass(frozen=True)
class Metric:
    """One name, or a family of names where it ends in `/*`."""

    name: str
    help: str  # what it is
    unit: str
    form: str  # a format such as `.3f`, or `count`, `bytes`, `percent`, `duration`
    priority: int  # place within its namespace, lowest first; up to HEADLINE it is shown where room is short
    bounds: Limits | str  # fixed, or the name of a rule in `bounds.RULES`; UNBOUNDED is said, never left out
    better: Better = "none"
    monotonic: bool = False
    healthy: str = ""  # what it looks like when all is well, and when it is not
    settings: tuple[str, ...] = ()  # the recipe settings that move it, the strongest first
    highlight: str = ""  # a colour of its own in tables
    fold: Fold = "mean"  # what a row that stands for several updates holds, of those that measured it
    looked: bool = False  # taken only of some updates, with the histograms
    histogram: bool = False  # bins and counts, not a number

    @property
    def namespace(self) -> str:
        return self.name.partition("/")[0] if "/" in self.name else "clock"

    @property
    def folded(self) -> Fold:
        """What a row that stands for several updates really holds."""
        return "last" if self.monotonic or self.looked or self.histogram else self.fold

    @property
    def is_family(self) -> bool:
        return self.name.endswith("/*")

    def text(self, value: float) -> str:
        """The value for people, at the metric's precision."""
        return written(value, self.form)


HEADLINE = 30


def written(value: float, form: str) -> str:
    """A number in one of the forms above; what is no number is called by its name."""
    if not math.isfinite(value):
        return str(value)
    if form == "count":
        return counted(value)
    if form == "bytes":
        return sized(value)
    if form == "percent":
        return f"{100 * value:.1f} %"
    if form == "duration":
        return lasted(value)
    return f"{value:{form}}"


def counted(value: float) -> str:
    """1234567 as `1.235M`; whole numbers below 10,000 in full."""
    for suffix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= max(size, 1e4):
            return f"{value / size:.4g}{suffix}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.4g}"


def sized(value: float) -> str:
    """Bytes in the unit that suits."""
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def lasted(seconds: float) -> str:
    """`0.42 s`, `12.3 s`, `5:03`, `2:05:03`."""
    if not seconds >= 60 or math.isinf(seconds):
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
