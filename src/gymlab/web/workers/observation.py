"""Reading and changing one part of an observation that has become JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def value_at(observation: Any, path: Sequence[str | int]) -> Any:
    """One part of an observation as JSON."""
    for key in path:
        observation = observation[key]
    return observation


def with_value(observation: Any, path: Sequence[str | int], value: Any) -> Any:
    """The observation with one part changed; the one given is left as it is."""
    if not path:
        return value
    key, *rest = path
    changed: Any = dict(observation) if isinstance(observation, dict) else list(observation)
    changed[key] = with_value(observation[key], rest, value)
    return changed
