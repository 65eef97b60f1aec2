"""Settings outside their usual range. They are findings only where a run does badly: some tasks need them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from gymlab.alerts.context import RunContext
from gymlab.alerts.overrides import changed, times
from gymlab.core.types import Json


class Range(NamedTuple):
    """The usual range of a setting, and the value to return to."""

    low: float
    high: float
    usual: float
    below: str  # what happens outside
    above: str


class UnusualSetting(NamedTuple):
    """A setting outside its usual range."""

    key: str
    text: str
    consequence: str
    overrides: dict[str, Json]
    distance: float  # how far outside, in powers of ten

    @property
    def id(self) -> str:
        return f"unusual-{self.key.rpartition('.')[2].replace('_', '-')}"


RANGES = {
    "learning_rate": Range(
        1e-5, 1e-2, 3e-4, "weights hardly move within the budget", "steps overshoot whatever they aim at"
    ),
    "gamma": Range(0.9, 1.0, 0.99, "only the next few rewards count, so nothing is done for later ones", ""),
    "gae_lambda": Range(0.5, 1.0, 0.95, "advantages are as wrong as the value net is", ""),
    "clip_range": Range(
        0.05, 0.5, 0.2, "gradients are cut off as soon as the policy moves at all", "nothing holds the policy back"
    ),
    "value_clip": Range(0.05, 100.0, 0.2, "the value net may hardly move in an update", ""),
    "entropy_coef": Range(0.0, 0.2, 0.01, "", "the policy is paid for acting at random more than for the task"),
    "value_coef": Range(
        0.01, 5.0, 0.5, "the value net hardly learns", "the value loss outweighs the policy's in the clipped gradient"
    ),
    "max_grad_norm": Range(
        1e-2, 100.0, 0.5, "gradients are scaled down to nothing", "a single bad batch can throw the weights far off"
    ),
    "optimizer_eps": Range(1e-10, 1e-3, 1e-5, "", "it outweighs the gradients, so that all steps are tiny"),
    "epochs": Range(1, 40, 10, "", "the policy is fitted again and again to the same few steps"),
}
_FEWEST_SAMPLES = 64
_ENOUGH_SAMPLES = 256
_SMALLEST_BATCH = 8
_USUAL_BATCH = 64


def ranges_table() -> list[str]:
    """The ranges as a Markdown table, for the documentation."""
    rows = ["| setting | usual | back to | below | above |", "| --- | --- | --- | --- | --- |"]
    for leaf, known in RANGES.items():
        span = f"{known.low:g} to {known.high:g}"
        rows.append(f"| `{leaf}` | {span} | {known.usual:g} | {known.below or '–'} | {known.above or '–'} |")
    return rows


def unusual_settings(run: RunContext) -> list[UnusualSetting]:
    """All unusual settings of a run, the furthest outside first."""
    found = [*_outside(run), *_rollout(run), *_batch(run), *_optimizer(run)]
    return sorted(found, key=lambda each: -each.distance)


def _outside(run: RunContext) -> Iterator[UnusualSetting]:
    for leaf, known in RANGES.items():
        value = run.number(leaf)
        if value is None or known.low <= value <= known.high:
            continue
        low = value < known.low
        limit = known.low if low else known.high
        consequence = known.below if low else known.above
        if consequence:
            side = "below" if low else "above"
            text = f"{run.key(leaf)} is {value:g}, {side} the usual {known.low:g} to {known.high:g}"
            distance = abs(math.log10(max(value, 1e-9) / max(limit, 1e-9)))
            yield UnusualSetting(run.key(leaf), text, consequence, _back(run, leaf, value, known), distance)


def _back(run: RunContext, leaf: str, value: float, known: Range) -> dict[str, Json]:
    """The usual value, a schedule keeping its shape."""
    return times(run, leaf, known.usual / value) if value else changed(run, leaf, known.usual)


def _rollout(run: RunContext) -> Iterator[UnusualSetting]:
    samples = run.samples
    n_steps = run.settings.get("n_steps")
    if samples is None or not isinstance(n_steps, int) or samples >= _FEWEST_SAMPLES:
        return
    doublings = math.ceil(math.log2(_ENOUGH_SAMPLES / samples))
    enough = n_steps * 2**doublings  # a multiple, so that the minibatch still divides it
    text = f"an update learns from {samples} env steps (n_envs × n_steps), fewer than the usual {_FEWEST_SAMPLES}"
    yield UnusualSetting(
        "n_steps", text, "its gradients are mostly noise", {"n_steps": enough}, _far(samples, _FEWEST_SAMPLES)
    )


def _batch(run: RunContext) -> Iterator[UnusualSetting]:
    size = run.number("batch_size")
    samples = run.samples
    if size is None or samples is None:
        return
    size = size * samples if size < 1 else size
    fits = [d for d in range(1, samples + 1) if samples % d == 0]
    usual = min(fits, key=lambda d: abs(math.log(d / _USUAL_BATCH)))
    if size < _SMALLEST_BATCH <= usual:
        text = f"{run.key('batch_size')} is {size:g}, below the usual {_SMALLEST_BATCH} or more"
        overrides = changed(run, "batch_size", usual)
        yield UnusualSetting(
            run.key("batch_size"), text, "its gradients are mostly noise", overrides, _far(size, _SMALLEST_BATCH)
        )


def _optimizer(run: RunContext) -> Iterator[UnusualSetting]:
    rate = run.number("learning_rate")
    if run.written("optimizer") == "sgd" and rate is not None and rate < 1e-2:
        text = f"{run.key('optimizer')} is sgd at a learning rate of {rate:g}, which suits adam"
        overrides = changed(run, "optimizer", "adam")
        yield UnusualSetting(
            run.key("optimizer"), text, "steps are as small as the gradients are", overrides, _far(rate, 1e-2)
        )


def _far(value: float, limit: float) -> float:
    return abs(math.log10(value / limit))
