"""One episode as a page holds it: rows as plain values, the steps that stand out, and the whole as text.

Imports neither JAX nor NumPy: the rows come from the worker, which writes the CSV too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from gymlab.core.types import Json

if TYPE_CHECKING:
    from gymlab.media.episode_trace import TraceRecord

Number = Literal[
    "value",
    "return_so_far",
    "return_to_go",
    "baseline",
    "reward",
    "train_reward",
    "advantage",
    "gae",
    "td_error",
    "entropy",
    "probability",
]  # columns of numbers


@dataclass(frozen=True)
class EpisodeRequest:
    """Which episode of a run to play, and how."""

    checkpoint: str = "best"
    seed: int | None = None  # None: the recipe's eval.seed
    sampled: bool | None = None  # None: as the recipe films it
    max_steps: int | None = None  # None: as many as the recipe films
    forced: Mapping[int, Json] = field(default_factory=dict)  # actions by step, as the policy gives them


class RequestFields(TypedDict):
    """An `EpisodeRequest` as JSON, without its forced actions: those have text for keys."""

    checkpoint: str
    seed: int | None
    sampled: bool | None
    max_steps: int | None


@dataclass(frozen=True)
class EpisodeTable:
    """One episode."""

    rows: Sequence[TraceRecord]
    ended: str  # terminated, truncated or cut
    checkpoint: str
    seed: int
    sampled: bool
    name: str  # of its pictures and its CSV

    @property
    def total(self) -> float:
        return float(self.rows[-1]["return_so_far"]) if self.rows else 0.0

    def column(self, name: Number) -> list[float | None]:
        return [row[name] for row in self.rows]


def lowest_value(table: EpisodeTable) -> int | None:
    """The step with the lowest value."""
    return _most(table, "value", lambda value: -value)


def highest_surprise(table: EpisodeTable) -> int | None:
    """The step with the largest absolute TD error."""
    return _most(table, "td_error", abs)


def _most(table: EpisodeTable, column: Literal["value", "td_error"], size: Callable[[float], float]) -> int | None:
    known = [(size(value), -row["step"]) for row in table.rows if (value := row[column]) is not None]
    return -max(known)[1] if known else None


def reward_events(table: EpisodeTable) -> list[int]:
    """Steps with an unusual reward: other than the most common one or, without such a one, two std from the mean."""
    rewards = [row["reward"] for row in table.rows]
    if not rewards:
        return []
    usual = max(set(rewards), key=rewards.count)
    if rewards.count(usual) * 2 < len(rewards):  # rewards of all sizes: those far from the mean
        mean = sum(rewards) / len(rewards)
        spread = (sum((reward - mean) ** 2 for reward in rewards) / len(rewards)) ** 0.5
        return [step for step, reward in enumerate(rewards) if abs(reward - mean) > 2 * spread]
    return [step for step, reward in enumerate(rewards) if reward != usual]


def next_event(events: Sequence[int], step: int) -> int | None:
    """The next event after a step, cyclically."""
    return next((event for event in events if event > step), events[0] if events else None)


def episode_text(table: EpisodeTable, names: Sequence[str] = (), most: int = 20) -> str:
    """The episode as text for a review: summary and notable steps."""
    head = (
        f"episode: checkpoint {table.checkpoint}, seed {table.seed}, {'sampled' if table.sampled else 'greedy'}, "
        f"{len(table.rows)} steps, return {table.total:.6g}, ended: {table.ended}"
    )
    lines = [head, f"observation: {', '.join(names)}" if names else "", "steps that stand out:"]
    chosen = _notable_steps(table, most)
    lines += [_step_line(table.rows[step]) for step in chosen]
    return "\n".join(filter(None, lines))


def _notable_steps(table: EpisodeTable, most: int) -> list[int]:
    last = len(table.rows) - 1
    surprise = sorted(range(len(table.rows)), key=lambda step: -abs(table.rows[step]["td_error"] or 0.0))
    order = [0, last, lowest_value(table), highest_surprise(table), *reward_events(table)[:most], *surprise]
    found: list[int] = []
    for step in order:
        if step is not None and step >= 0 and step not in found and len(found) < most:
            found.append(step)
    return sorted(found)


def _step_line(row: TraceRecord) -> str:
    numbers: tuple[Number, ...] = (
        "reward",
        "return_so_far",
        "value",
        "advantage",
        "td_error",
        "entropy",
        "probability",
    )
    parts = [f"{name} {row[name]:.4g}" for name in numbers if row[name] is not None]
    return f"- step {row['step']}: saw {row['observation']}; did {row['label']}; {', '.join(parts)}"


def value_at(observation: Json, path: Sequence[str | int]) -> Json:
    """One part of an observation as JSON."""
    part: Any = observation
    for key in path:
        part = part[key]
    return cast("Json", part)


def with_value(observation: Any, path: Sequence[str | int], value: Json) -> Json:
    """A copy of the observation with one part changed."""
    if not path:
        return value
    key, *rest = path
    changed: Any = dict(observation) if isinstance(observation, dict) else list(observation)
    changed[key] = with_value(observation[key], rest, value)
    return changed
