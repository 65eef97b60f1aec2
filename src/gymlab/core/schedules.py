"""Schedules: hyperparameters as functions of a run's progress. The only place that computes them.

Values are computed here in float64 and enter compiled code as numbers, so changing one never recompiles.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeGuard

import numpy as np
from pydantic import AfterValidator, PlainSerializer, PlainValidator, WithJsonSchema

from gymlab.core.clock import parse_number
from gymlab.core.errors import suggestion
from gymlab.core.types import Json

Shape = Literal["linear", "cosine", "exp", "constant"]
SHAPES = ("linear", "cosine", "exp", "constant")
_KEYS = ("start", "end", "from", "to", "shape", "min")


@dataclass(frozen=True)
class Schedule:
    """`start` until progress `begin`, then `shape` to `end` at progress `finish`, `end` after; or through `points`."""

    start: float
    end: float
    begin: float = 0.0
    finish: float = 1.0
    shape: Shape = "constant"
    points: tuple[tuple[float, float], ...] = ()
    minimum: float = -math.inf
    source: Any = None  # the value as written in the recipe; pydantic reads this annotation

    @property
    def values(self) -> tuple[float, ...]:
        """The values at the corner points; all others lie between them."""
        corners = tuple(value for _, value in self.points) or (self.start, self.end)
        return tuple(max(value, self.minimum) for value in corners)

    @property
    def varies(self) -> bool:
        return len(set(self.values)) > 1

    def at(self, progress: float) -> float:
        return max(self._raw(progress), self.minimum)

    def _raw(self, progress: float) -> float:
        if self.points:
            where, values = zip(*self.points, strict=True)
            return float(np.interp(progress, where, values))
        if self.shape == "constant":
            return self.start if progress < self.finish or self.start == self.end else self.end
        share = min(max((progress - self.begin) / (self.finish - self.begin), 0.0), 1.0)
        if share in (0.0, 1.0):
            return self.end if share else self.start  # exact, whatever the shape
        if self.shape == "linear":
            return self.start * (1.0 - share) + self.end * share
        if self.shape == "cosine":
            return self.end + (self.start - self.end) * 0.5 * (1.0 + math.cos(math.pi * share))
        return math.exp(math.log(self.start) * (1.0 - share) + math.log(self.end) * share)


def constant(value: float, source: Json = None) -> Schedule:
    """A schedule with one value."""
    return Schedule(value, value, source=value if source is None else source)


def parse_schedule(raw: Json | Schedule) -> Schedule:
    """From a recipe: `3e-4`, `lin_3e-4`, `{start, end, from, to, shape, min}` or `[[0%, 1e-3], [100%, 1e-5]]`."""
    if isinstance(raw, Schedule):
        return raw
    if isinstance(raw, str) and raw.startswith("lin_"):
        return Schedule(_number(raw[4:], raw), 0.0, shape="linear", source=raw)
    if isinstance(raw, dict):
        return _from_mapping(raw)
    if isinstance(raw, list | tuple):
        return _from_points(raw, minimum=-math.inf, source=raw)
    return constant(_number(raw, raw), source=raw)


def _number(raw: Json, whole: Json) -> float:
    value = parse_number(raw)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(
            f"{whole!r} is neither a number nor a schedule: write 3e-4, lin_3e-4, "
            "{start: 3e-4, end: 1e-5} or [[0%, 1e-3], [100%, 1e-5]]"
        )
    return float(value)


def _from_mapping(raw: dict[str, Json]) -> Schedule:
    if "points" in raw:
        unknown = [str(key) for key in raw if key not in ("points", "min")]
        if unknown:
            raise ValueError(f"unknown schedule key '{unknown[0]}' beside points: {suggestion(unknown[0], ['min'])}")
        minimum = _number(raw["min"], raw["min"]) if "min" in raw else -math.inf
        return _from_points(raw["points"], minimum=minimum, source=dict(raw))
    for key in raw:
        if key not in _KEYS:
            raise ValueError(f"unknown schedule key '{key}': {suggestion(str(key), [*_KEYS, 'points'])}")
    if "start" not in raw:
        raise ValueError(f"a schedule needs 'start', got {raw!r}")
    start = _number(raw["start"], raw["start"])
    shape = raw.get("shape", "linear")
    if not is_shape(shape):
        raise ValueError(f"unknown schedule shape '{shape}': {suggestion(str(shape), SHAPES)}")
    end = _number(raw.get("end", start if shape == "constant" else 0.0), raw.get("end"))
    begin = _progress(raw.get("from", 0.0))
    finish = _progress(raw.get("to", 1.0))
    if begin >= finish:
        raise ValueError(f"a schedule's 'from' ({begin:g}) must lie before its 'to' ({finish:g})")
    if shape == "exp" and (start <= 0 or end <= 0):
        raise ValueError(f"shape exp needs start and end above 0, got start={start:g} and end={end:g}")
    minimum = _number(raw["min"], raw["min"]) if "min" in raw else -math.inf
    return Schedule(start, end, begin, finish, shape, minimum=minimum, source=dict(raw))


def is_shape(name: Json) -> TypeGuard[Shape]:
    return name in SHAPES


def _from_points(raw: Json, *, minimum: float, source: Json) -> Schedule:
    if (
        not isinstance(raw, list | tuple)
        or not raw
        or not all(isinstance(p, list | tuple) and len(p) == 2 for p in raw)
    ):
        raise ValueError(f"a piecewise schedule is a list of [progress, value] pairs, got {raw!r}")
    points = tuple((_progress(where), _number(value, value)) for where, value in raw)
    if any(a[0] >= b[0] for a, b in itertools.pairwise(points)):
        raise ValueError(f"the progress of a piecewise schedule must rise from point to point, got {raw!r}")
    as_lists: Json = source if isinstance(source, dict) else [list(pair) for pair in raw]
    return Schedule(points[0][1], points[-1][1], points=points, minimum=minimum, source=as_lists)


def _progress(raw: Json) -> float:
    value = _number(raw, raw)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"progress runs from 0 (or 0%) to 1 (or 100%), got {raw!r}")
    return value


def within(low: float = -math.inf, high: float = math.inf) -> AfterValidator:
    """A bound on every value a schedule takes, for use in `Annotated[Scheduled, within(0, 1)]`."""

    def check(schedule: Schedule) -> Schedule:
        if not low <= min(schedule.values) <= max(schedule.values) <= high:
            bound = f"must be at least {low:g}" if high == math.inf else f"must stay within {low:g} and {high:g}"
            raise ValueError(f"{bound}, got {schedule.source!r}")
        return schedule

    return AfterValidator(check)


_SERIALIZER = PlainSerializer(lambda schedule: schedule.source)
_JSON_SCHEMA = WithJsonSchema(
    {
        "description": "a number, lin_X, {start, end, from, to, shape, min} or [[progress, value], ...]",
        "anyOf": [{"type": "number"}, {"type": "string"}, {"type": "object"}, {"type": "array"}],
    }
)
Scheduled = Annotated[Schedule, PlainValidator(parse_schedule), _SERIALIZER, _JSON_SCHEMA]
