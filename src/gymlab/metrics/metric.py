"""The declaration of a metric: name, help, unit, format, priority and bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gymlab.core.format import format_bytes, format_count, format_duration

Better = Literal["up", "down", "none"]
Fold = Literal["mean", "last", "sum", "min", "max"]
OverRun = Literal["sum", "mean"]
Limits = tuple[float, float]

UNBOUNDED: Limits = (-math.inf, math.inf)
POSITIVE: Limits = (0.0, math.inf)
SHARE: Limits = (0.0, 1.0)


@dataclass(frozen=True)
class Metric:
    """One metric, or a family of metrics if its name ends in `/*`."""

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
    fold: Fold = "mean"  # how the values of several updates are combined in one row
    sparse: bool = False  # measured only in some updates, together with the histograms
    histogram: bool = False  # bins and counts, not a number
    over_run: tuple[OverRun, str] | None = None  # computed from another metric over all updates of the run so far

    @property
    def namespace(self) -> str:
        return self.name.partition("/")[0] if "/" in self.name else "clock"

    @property
    def folded(self) -> Fold:
        """How a row that stands for several updates is folded."""
        return "last" if self.monotonic or self.sparse or self.histogram else self.fold

    @property
    def is_family(self) -> bool:
        return self.name.endswith("/*")

    def text(self, value: float) -> str:
        """The value for people, at the metric's precision."""
        return written(value, self.form)


HEADLINE = 30


def written(value: float, form: str) -> str:
    """A number in one of the forms above; NaN and infinities by their names."""
    if not math.isfinite(value):
        return str(value)
    if form == "count":
        return format_count(value)
    if form == "bytes":
        return format_bytes(value)
    if form == "percent":
        return f"{100 * value:.1f} %"
    if form == "duration":
        return format_duration(value)
    return f"{value:{form}}"
