"""The clocks of a run (steps, updates, gradient steps, seconds), and parsing of numbers such as `1M` and `10%`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple, TypedDict, TypeVar, cast

from pydantic import AllowInfNan, BeforeValidator, WithJsonSchema

from gymlab.core.format import format_count
from gymlab.core.types import Json

T = TypeVar("T")
StepClock = Literal["vec_steps", "env_steps"]
CLOCKS = ("vec_steps", "env_steps", "updates", "gradient_steps", "seconds")  # what a curve can be drawn over

_SUFFIX = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_NUMBER = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[-+]?\d{1,4})?)\s*([kmgb]?|%)\s*", re.IGNORECASE | re.ASCII)
_EXACT = 10**18  # larger numbers become floats
_LARGEST_COUNT = 10**15


class ClockRecord(TypedDict):
    """A `Clock` as JSON."""

    updates: int
    vec_steps: int
    env_steps: int
    episodes: int
    seconds: float
    gradient_steps: int


class Clock(NamedTuple):
    """The position of a run. Counted at whole updates, so it is exact after a resume."""

    updates: int = 0
    vec_steps: int = 0  # vectorised env.step calls: comparable across n_envs
    env_steps: int = 0  # transitions
    episodes: int = 0
    seconds: float = 0.0  # of training, over all sessions of the run
    gradient_steps: int = 0  # optimiser steps taken: none in a skipped update, fewer where target_kl ends one

    def as_json(self) -> ClockRecord:
        return cast("ClockRecord", self._asdict())

    def at(self, clock: StepClock) -> int:
        return self.vec_steps if clock == "vec_steps" else self.env_steps


def parse_number(raw: T) -> T | int | float:
    """`100k`, `1M`, `10%`, `1e-3` as numbers; anything else comes back untouched for the schema to refuse."""
    if not isinstance(raw, str) or len(raw) > 100:
        return raw
    match = _NUMBER.fullmatch(raw)
    if not match:
        return raw
    digits = match[1].replace("_", "")
    suffix = match[2].lower()
    # Decimal, because 2.3 * 10**6 is not a whole number in binary
    value = Decimal(digits) / 100 if suffix == "%" else Decimal(digits) * _SUFFIX[suffix]
    counts = re.fullmatch(r"[-+]?\d+", digits) is not None or suffix != ""
    whole = suffix != "%" and counts and abs(value) < _EXACT and value == value.to_integral_value()
    return int(value) if whole else float(value)


def _parse_finite(raw: Json) -> Json:
    if isinstance(raw, bool):
        raise ValueError("expected a number")
    return parse_number(raw)


def _parse_count(raw: Json) -> Json:
    value = _parse_finite(raw)
    if isinstance(value, int | float) and abs(value) > _LARGEST_COUNT:
        raise ValueError(f"expected a whole number below {format_count(_LARGEST_COUNT)}")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _json_schema(kind: str) -> WithJsonSchema:
    pattern = r"^[-+]?[0-9][0-9_]*\.?[0-9]*([eE][-+]?[0-9]+)?[kKmMgGbB%]?$"
    return WithJsonSchema({"anyOf": [{"type": kind}, {"type": "string", "pattern": pattern}]})


Number = Annotated[float, BeforeValidator(_parse_finite), AllowInfNan(False), _json_schema("number")]
Count = Annotated[int, BeforeValidator(_parse_count), _json_schema("integer")]
