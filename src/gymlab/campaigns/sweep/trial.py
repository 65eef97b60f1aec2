"""One trial as everybody sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gymlab.campaigns.sweep.space import Value
from gymlab.runs.locks import Owner

State = Literal["waiting", "running", "finished", "pruned", "failed"]
ENDED = ("finished", "pruned", "failed")


@dataclass(frozen=True)
class Row:
    """A trial of a sweep, from the study's storage."""

    index: int
    trial_id: int  # the storage's
    state: State
    params: Mapping[str, Value]
    overrides: tuple[str, ...]
    value: float | None = None  # interquartile mean of its runs' scores
    rungs: Mapping[int, float] = field(default_factory=dict)  # by number of the rung
    scores: tuple[float, ...] = ()  # by seed
    runs: tuple[str, ...] = ()
    env_steps: int = 0
    reason: str = ""
    owner: Owner | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    def as_json(self) -> dict[str, Any]:
        return {
            "trial": self.index,
            "state": self.state,
            "value": self.value,
            "params": dict(self.params),
            "overrides": list(self.overrides),
            "scores": list(self.scores),
            "rungs": {str(rung): value for rung, value in sorted(self.rungs.items())},
            "runs": list(self.runs),
            "env_steps": self.env_steps,
            "reason": self.reason,
        }


def best_row(rows: Sequence[Row]) -> Row | None:
    """The finished trial with the highest value; the first of equals, as Optuna says it too."""
    scored = [row for row in rows if row.state == "finished" and row.value is not None]
    return max(scored, key=lambda row: (row.value or 0.0, -row.index), default=None)
