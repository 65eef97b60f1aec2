"""Overrides that advice suggests, computed from the recipe: a schedule keeps its shape, numbers are rounded."""

from __future__ import annotations

from collections.abc import Mapping

from gymlab.alerts.context import RunContext
from gymlab.alerts.engine import Advice
from gymlab.core.clock import parse_number
from gymlab.core.types import Json


def scaled(written: Json, factor: float) -> Json:
    """A number or a schedule, as written in a recipe, times a factor; anything else is returned unchanged."""
    if isinstance(written, str) and written.startswith("lin_"):
        rate = parse_number(written[4:])
        return written if isinstance(rate, str) else f"lin_{_short(rate, factor)}"
    if isinstance(written, Mapping):
        scaled_keys = ("start", "end", "min")
        inner = {key: scaled(value, factor) if key in scaled_keys else value for key, value in written.items()}
        return inner | ({"points": scaled(written["points"], factor)} if "points" in written else {})
    if isinstance(written, list | tuple):
        return [[at, scaled(value, factor)] for at, value in written]
    number = parse_number(written)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return written
    return _short(number, factor)


def _short(value: float, factor: float) -> float | int:
    """Two digits: more would pretend to know better. A whole number times a whole number is exact."""
    if isinstance(value, int) and float(factor).is_integer():
        return value * int(factor)
    product = float(f"{value * factor:.2g}")
    return int(product) if product.is_integer() and abs(product) >= 1 else product


def changed(run: RunContext, key: str, value: Json) -> dict[str, Json]:
    """An override, unless it would change nothing."""
    full = key if "." in key or key in run.settings else run.key(key)
    return {} if value == run.settings.get(full, value if value is None else object()) else {full: value}


def times(run: RunContext, leaf: str, factor: float, *, most: float | None = None) -> dict[str, Json]:
    """One of the algorithm's numbers times a factor, and at most `most`; {} where it is not set or is 0."""
    high = run.number(leaf)
    if not high:
        return {}
    target = high * factor if most is None else min(high * factor, most)
    return changed(run, leaf, scaled(run.written(leaf), target / high))


def advice(text: str, *overrides: dict[str, Json]) -> Advice:
    """The text, with what to try at its end."""
    merged = {key: value for part in overrides for key, value in part.items()}
    tried = ", ".join(f"{key}={_written(value)}" for key, value in merged.items())
    return Advice(f"{text} Try {tried}." if tried else text, merged)


def lower_rate(run: RunContext, factor: float) -> dict[str, Json]:
    """A smaller learning rate; one above 5e-3 is cut to 1e-3, which Adam tolerates."""
    high = run.number("learning_rate") or 0.0
    written = run.written("learning_rate")
    if high > 5e-3 and isinstance(written, list):  # some of its points may be sound
        return changed(
            run,
            "learning_rate",
            [[at, min(value, 1e-3) if isinstance(value, float) else value] for at, value in written],
        )
    return times(run, "learning_rate", factor, most=1e-3 if high > 5e-3 else None)


def higher_rate(run: RunContext, factor: float) -> dict[str, Json]:
    """A larger learning rate, at most 1e-3 (a tripling above that); one below 3e-5 is raised to 3e-4 at once."""
    high = run.number("learning_rate") or 0.0
    if high >= 1e-3:
        return times(run, "learning_rate", min(factor, 3.0))
    return times(run, "learning_rate", 3e-4 / high if 0 < high < 3e-5 else factor, most=1e-3)


def batch_sizes(run: RunContext) -> int | None:
    """Twice the minibatch, where that still divides the rollout."""
    size = run.number("batch_size")
    samples = run.samples
    if size is None or samples is None or size < 1 or samples % int(2 * size):
        return None
    return int(2 * size)


def _written(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value).replace("'", "").replace(" ", "")
