"""Which metrics stand together in one chart, and what is drawn in it."""

from __future__ import annotations

from gymlab.metrics.catalogue import metric
from gymlab.metrics.metric import UNBOUNDED
from gymlab.runs.metrics_reader import Curve, smooth_curve
from gymlab.web.charts import Look, Plot
from gymlab.web.view import LiveRun

_EVALUATION = tuple(f"eval/{mode}_{part}" for mode in ("greedy", "sampled") for part in ("mean", "low", "high"))
_SCALED = ("opt/loss/policy_scaled", "opt/loss/value_scaled", "opt/loss/entropy_scaled")
_RAW = ("opt/policy_loss", "opt/value_loss", "opt/entropy")
_COUNTS = ("rollout", "gradient_steps")
EVALUATION = "evaluation, mean and 95 % interval"
LOSSES = "losses"
COMPOSITES = {"eval": (EVALUATION, _EVALUATION), "opt": (LOSSES, (*_SCALED, *_RAW))}  # by group


def parts_of(name: str) -> tuple[str, ...]:
    """The metrics a chart is made of."""
    return next((parts for title, parts in COMPOSITES.values() if title == name), (name,))


def plot_of(view: LiveRun, name: str, look: Look, *, scaled: bool) -> Plot:
    """What a chart shows of a run."""
    if name == EVALUATION:
        return _evaluation(view, look)
    if name == LOSSES:
        return _losses(view, look, scaled=scaled)
    trace = smooth_curve(view.series.trace(name, look.axis), look.smooth)
    counts = metric(name).bounds in _COUNTS  # what could happen at most is far beyond what does
    limits = UNBOUNDED if counts else view.limits().get(name, UNBOUNDED)
    goal = view.goal if name == "roll/return_mean" else None
    return Plot(name, {name: trace} if len(trace.x) else {}, limits, goal)


def _evaluation(view: LiveRun, look: Look) -> Plot:
    lines: dict[str, Curve] = {}
    for mode in ("greedy", "sampled"):
        mean, low, high = (view.series.trace(f"eval/{mode}_{part}", look.axis) for part in ("mean", "low", "high"))
        if len(mean.x):
            whole = len(low.y) == len(high.y) == len(mean.y)
            lines[mode] = Curve(mean.x, mean.y, low.y, high.y) if whole else mean
    return Plot(EVALUATION, lines, view.limits().get("eval/greedy_mean", UNBOUNDED), view.goal)


def _losses(view: LiveRun, look: Look, *, scaled: bool) -> Plot:
    """The parts of what is minimised: as they add up, or each by itself before coefficients."""
    lines = {}
    for name in _SCALED if scaled else _RAW:
        trace = smooth_curve(view.series.trace(name, look.axis), look.smooth)
        if len(trace.x):
            lines[name.rpartition("/")[2]] = trace
    stacked = scaled and not look.log
    return Plot("losses, scaled as they add up" if stacked else "losses", lines, stacked=stacked)
