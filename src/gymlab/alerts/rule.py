"""What a rule is: it looks at rows of metrics, one at a time and with a small memory, and says what to change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from gymlab.alerts.context import Case
from gymlab.core.clock import Clock

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
Memory = dict[str, float]  # what a rule keeps from row to row; finite, so that it can be compared
EVERYTHING = "*"  # a rule that looks at all metrics of a row
_LATE = ("eval/", "time/", "sys/")


class Row(NamedTuple):
    """The metrics of one update, or those of them that are known so far."""

    clock: Clock
    metrics: Mapping[str, float]

    @property
    def progress(self) -> float:
        return self.metrics.get("time/progress", 0.0)


class Evidence(NamedTuple):
    """Why a row is sick."""

    metric: str
    text: str
    numbers: dict[str, float] = {}  # noqa: RUF012 - a tuple's default, never written to


class Advice(NamedTuple):
    """What to change: in words, and as overrides by full key."""

    text: str
    overrides: dict[str, Any] = {}  # noqa: RUF012


class Judged(NamedTuple):
    """What a rule says of one row."""

    evidence: Evidence | None = None  # None: the row is well
    memory: Memory | None = None  # None: as it was


# Gives None where the row holds nothing to judge: it then counts neither as sick nor as well.
Judge = Callable[[Row, Memory, Case], Judged | None]
Advise = Callable[[Case, Evidence], Advice]


@dataclass(frozen=True)
class Rule:
    """Raised once `raise_after` of the last `of` judged rows were sick, cleared after `clear_after` well ones."""

    id: str
    severity: Severity
    title: str  # what is wrong, in a few words
    help: str  # why that is bad, and when it is raised
    metrics: tuple[str, ...]  # the row must have all of them; `x/*` stands for any of a family
    judge: Judge
    advise: Advise
    raise_after: int = 3
    of: int = 5
    clear_after: int = 5
    after: float = 0.0  # progress before which nothing is raised
    wants_distributions: bool = False  # raising it asks for distributions at the next update
    exact: frozenset[str] = field(init=False)
    families: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        assert 0 < self.raise_after <= self.of
        families = tuple(name[:-1] for name in self.metrics if name.endswith("*"))
        object.__setattr__(self, "families", families)
        object.__setattr__(self, "exact", frozenset(name for name in self.metrics if not name.endswith("*")))

    @property
    def late(self) -> bool:
        """It judges what is measured now and then, after the update: no row of these is passed over."""
        return any(name.startswith(_LATE) and name != "time/progress" for name in self.metrics)

    @property
    def of_machine(self) -> bool:
        """It judges the machine: what it finds differs from session to session, and is not part of a run's state."""
        return any(name.startswith(("time/", "sys/")) and name != "time/progress" for name in self.metrics)

    def concerns(self, new: Mapping[str, float], row: Mapping[str, float]) -> bool:
        """Whether something of what is new makes this row one to judge."""
        if not self.exact <= row.keys():
            return False
        if any(name in new for name in self.exact):
            return True
        return any(name.startswith(family) for family in self.families for name in new)
