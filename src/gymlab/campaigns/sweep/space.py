"""The search space of a sweep: `key=1,2,3`, `key=0.1..0.9`, `key=log:1e-5..1e-2` or `key=int:1..5` for each setting.

`:N` after a range makes it N evenly spaced points; `lin_` before it makes each value a schedule that falls to zero.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gymlab.core.clock import parse_number
from gymlab.core.errors import UserError
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import Recipe

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Value = float | int | str
_RANGE = re.compile(
    r"(?P<lin>lin_)?(?P<kind>(?:int:|log:){0,2})(?P<low>[^.:,][^:,]*?)\.\.(?P<high>[^:,]+)(?::(?P<n>\d+))?"
)
_DIGITS = 4  # significant digits of a drawn number: people read it, and it is written into a recipe
_EXAMPLE = "e.g. ppo.learning_rate=log:1e-5..1e-2, ppo.epochs=4,8,16, n_steps=int:16..64 or ppo.gamma=0.9..0.999"


@dataclass(frozen=True)
class Dimension:
    """One setting and its values: choices, or a range."""

    key: str
    written: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    linear: bool = False  # the value is the start of a linear schedule to zero

    def text(self, value: Value) -> str:
        """The override that sets the key to this value."""
        written = value if isinstance(value, str) else repr(value)
        return f"{self.key}={'lin_' if self.linear else ''}{written}"

    def rounded(self, value: Value) -> Value:
        """A drawn number rounded to _DIGITS, within its bounds."""
        if not isinstance(value, float):
            return value
        return min(max(float(f"{value:.{_DIGITS}g}"), self.low), self.high)

    def ends(self) -> tuple[Value, Value]:
        if self.choices:
            return self.choices[0], self.choices[-1]
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)

    def points(self) -> list[Value]:
        """All values of a grid; UserError if the range is continuous."""
        if self.choices:
            return list(self.choices)
        if self.whole and not self.log:
            return list(range(int(self.low), int(self.high) + 1))
        raise UserError(f"--space {self.key}={self.written}: a grid needs points, write {self.key}={self.written}:5")

    def distribution(self) -> BaseDistribution:
        """The same as an Optuna distribution."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.choices:
            return CategoricalDistribution(self.choices)
        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)


def parse_space(texts: Sequence[str]) -> tuple[Dimension, ...]:
    """All `--space` options; a UserError for the first invalid one."""
    found = [_parse(text) for text in texts]
    for place, dimension in enumerate(found):
        if dimension.key in [earlier.key for earlier in found[:place]]:
            raise UserError(f"--space {dimension.key}: given twice")
    if not found:
        raise UserError(f"--space is missing: which settings to try, {_EXAMPLE}")
    return tuple(found)


def _parse(text: str) -> Dimension:
    key, equals, written = (part.strip() for part in text.partition("="))
    if not key or not equals or not written:
        raise UserError(f"--space {text[:80]!r}: a key and what it may be, {_EXAMPLE}")
    between = _RANGE.fullmatch(written)
    if between is None:
        return _choices(key, written)
    low, high = (_number(key, written, between[end]) for end in ("low", "high"))
    kind = between["kind"]
    dimension = Dimension(
        key, written, (), low, high, "log:" in kind, "int:" in kind, linear=between["lin"] is not None
    )
    if not low < high:
        raise UserError(f"--space {key}={written}: the first number must be the smaller one")
    if dimension.log and low <= 0:
        raise UserError(f"--space {key}={written}: log: needs numbers above 0")
    if dimension.whole and (low != int(low) or high != int(high)):
        raise UserError(f"--space {key}={written}: int: needs whole numbers")
    return dimension if between["n"] is None else _spread(dimension, int(between["n"]))


def _choices(key: str, written: str) -> Dimension:
    if ".." in written or re.match(r"(lin_)?(log|int):", written):
        raise UserError(f"--space {key}={written}: a range is LOW..HIGH, e.g. log:1e-5..1e-2 or int:1..5")
    found = tuple(dict.fromkeys(choice.strip() for choice in _split(written)))
    if not all(found) or len(found) < 2:
        raise UserError(f"--space {key}={written}: at least two values or a range, {_EXAMPLE}")
    return Dimension(key, written, found)


def _split(written: str) -> Iterator[str]:
    """Split at commas outside brackets: `[64,64],[256,256]` is two values."""
    depth = 0
    begin = 0
    for place, sign in enumerate(written):
        depth += (sign in "[{(") - (sign in "]})")
        if sign == "," and depth == 0:
            yield written[begin:place]
            begin = place + 1
    yield written[begin:]


def _number(key: str, written: str, text: str) -> float:
    value = parse_number(text.strip())
    if isinstance(value, str) or value is None or not math.isfinite(float(value)):
        raise UserError(f"--space {key}={written}: '{text.strip()[:40]}' is not a number")
    return float(value)


def _spread(dimension: Dimension, count: int) -> Dimension:
    if not 2 <= count <= 1000:
        raise UserError(f"--space {dimension.key}={dimension.written}: 2 to 1000 points")
    low, high = (math.log(end) if dimension.log else end for end in (dimension.low, dimension.high))
    values = [low + (high - low) * step / (count - 1) for step in range(count)]
    exact = [math.exp(value) if dimension.log else value for value in values]
    texts = [str(round(value)) if dimension.whole else f"{value:.{_DIGITS}g}" for value in exact]
    prefix = "lin_" if dimension.linear else ""
    return Dimension(dimension.key, dimension.written, tuple(dict.fromkeys(f"{prefix}{text}" for text in texts)))


def grid(space: Sequence[Dimension]) -> list[dict[str, Value]]:
    """Every combination; the last key varies fastest."""
    keys = [dimension.key for dimension in space]
    return [dict(zip(keys, values, strict=True)) for values in itertools.product(*(d.points() for d in space))]


def overrides(space: Sequence[Dimension], params: Mapping[str, Value]) -> tuple[str, ...]:
    """A trial's values as recipe overrides."""
    return tuple(dimension.text(params[dimension.key]) for dimension in space)


def check_space(space: Sequence[Dimension], recipe: Recipe) -> None:
    """UserError if a key is unknown or an end of its range is refused.

    A value that is refused alone may be valid together with others (n_steps and batch_size), so it is also tried with
    all keys at the same end.
    """
    corners = [[d.text(d.ends()[end]) for d in space] for end in (0, 1)]
    for dimension in space:
        for end, corner in enumerate(corners):
            try:
                amend(recipe, [dimension.text(dimension.ends()[end])])
            except UserError:
                try:
                    amend(recipe, corner)
                except UserError:
                    amend(recipe, [dimension.text(dimension.ends()[end])])
