"""Advice that agrees: of two that move one setting in opposite directions, the later is withdrawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from gymlab.alerts.causes import CAUSES
from gymlab.alerts.context import RunContext
from gymlab.core.schedules import parse_schedule

YIELDING = ("return-stalled", "return-collapsed", "greedy-below-sampled")  # their advice is for when nothing else is


class Advised(Protocol):
    """An alert or a finding of a diagnosis: a dataclass with these fields."""

    @property
    def id(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def active(self) -> bool: ...
    @property
    def advice(self) -> str: ...
    @property
    def overrides(self) -> Mapping[str, Any]: ...


A = TypeVar("A", bound=Advised)


def agreeing(ranked: Sequence[A], run: RunContext, causes: Iterable[tuple[str, str]] = CAUSES) -> list[A]:
    """The same, in the order given (the one to follow first): what opposes an earlier one has no overrides any more."""
    pairs = set(causes)
    found: list[A] = []
    for item in ranked:
        first = next((other for other in found if _gives_way(item, other, run, pairs)), None)
        found.append(item if first is None else _withdrawn(item, first))
    return found


def _gives_way(item: A, other: A, run: RunContext, causes: set[tuple[str, str]]) -> bool:
    explained = item.id in YIELDING and (other.id, item.id) in causes
    if explained and other.severity != "info" and other.active >= item.active and item.overrides and other.overrides:
        return True
    return any(opposite(key, item.overrides, other.overrides, run) for key in item.overrides)


def _withdrawn(item: A, first: A) -> A:
    text = f"{first.id} comes first: {first.advice} Then judge this again."
    return replace(item, advice=text, overrides={})  # type: ignore[type-var]


def opposite(key: str, one: Mapping[str, Any], other: Mapping[str, Any], run: RunContext) -> bool:
    """Whether two sets of overrides move a setting in opposite directions, or, where it is no number, differ."""
    if key not in one or key not in other:
        return False
    now = _size(run.written(key))
    sizes = _size(one[key]), _size(other[key])
    if now is None or sizes[0] is None or sizes[1] is None:
        return bool(one[key] != other[key])
    return (sizes[0] > now and sizes[1] < now) or (sizes[0] < now and sizes[1] > now)


def _size(value: Any) -> tuple[float, float] | None:
    """The highest and the lowest value of a number or a schedule; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        values = parse_schedule(value).values
    except (ValueError, TypeError):
        return None
    return max(values), min(values)
