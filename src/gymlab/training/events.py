"""Events of a run, and the Feature and Control interfaces: how features react to them.

An event is read-only all through, so what one feature does with it no other one sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from gymlab.core.clock import Clock
from gymlab.core.types import Histogram, read_only
from gymlab.training.evaluation import Evaluation
from gymlab.training.state import Policy

if TYPE_CHECKING:
    from gymlab.alerts.engine import Alert

EvaluationKind = Literal["periodic", "confirm", "final"]
CheckpointKind = Literal["periodic", "asked", "best", "last"]  # asked: to be evaluated


@dataclass(frozen=True)
class Event:
    clock: Clock


@dataclass(frozen=True)
class Started(Event):
    resumed: bool = False


class UpdateRow(NamedTuple):
    """The metrics of one update, and the clocks after it."""

    clock: Clock
    metrics: Mapping[str, float]
    histograms: Mapping[str, Histogram] = {}


def _read_only_rows(rows: tuple[UpdateRow, ...]) -> tuple[UpdateRow, ...]:
    return tuple(UpdateRow(row.clock, read_only(row.metrics), read_only(row.histograms)) for row in rows)


@dataclass(frozen=True)
class Updated(Event):
    """One or more updates are done; the clock is that of the last."""

    rows: tuple[UpdateRow, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _read_only_rows(self.rows))


@dataclass(frozen=True)
class Measured(Event):
    """Further values for the row of update `clock.updates`."""

    metrics: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", read_only(self.metrics))


@dataclass(frozen=True)
class Recorded(Event):
    """Rows as written to the store: those of `Updated`, or fewer where a row aggregates several updates."""

    rows: tuple[UpdateRow, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _read_only_rows(self.rows))


@dataclass(frozen=True)
class HistogramsRequested(Event):
    """Requests quantiles and histograms, because of the row at `clock`.

    They are taken a fixed number of updates later, whichever way updates are batched into calls.
    """


@dataclass(frozen=True)
class EvaluationRequested(Event):
    kind: EvaluationKind = "confirm"


@dataclass(frozen=True)
class Evaluated(Event):
    kind: EvaluationKind
    evaluation: Evaluation


@dataclass(frozen=True)
class CheckpointRequested(Event):
    kind: CheckpointKind = "periodic"


@dataclass(frozen=True)
class Checkpointed(Event):
    path: Path
    kinds: tuple[CheckpointKind, ...]
    seconds: float
    bytes: int


@dataclass(frozen=True)
class Promoted(Event):
    """The checkpoint saved at `clock` is the best so far."""

    path: Path


@dataclass(frozen=True)
class AlertRaised(Event):
    """A rule raised an alert (`gymlab.alerts.engine.Alert`)."""

    alert: Alert


@dataclass(frozen=True)
class AlertCleared(Event):
    """An alert was cleared."""

    alert: Alert


@dataclass(frozen=True)
class PauseRequested(Event):
    """Pause before the next update, or (`paused=False`) continue."""

    paused: bool = True


@dataclass(frozen=True)
class Paused(Event):
    """Sent repeatedly while the run is paused, with the seconds so far. A stop ends the pause too."""

    seconds: float = 0.0


@dataclass(frozen=True)
class KeyPressed(Event):
    """A key was pressed at the terminal."""

    key: str = ""


@dataclass(frozen=True)
class Stopping(Event):
    """No update follows. Features do their final work: the final evaluation, the last checkpoint."""

    reason: str
    interrupted: bool = False


@dataclass(frozen=True)
class Ended(Event):
    """The last event, after the last checkpoint."""

    reason: str
    status: Literal["finished", "stopped"]


class Snapshot(NamedTuple):
    """A frozen policy and its clock; immutable, so it can be used while training continues."""

    policy: Policy
    clock: Clock


class Control(Protocol):
    """The actions a feature can take."""

    def emit(self, event: Event) -> None:
        """Queue an event; it is delivered to all features after the current one."""
        ...

    def request_stop(self, reason: str, *, unfinished: bool = False) -> None:
        """Run no further update; the first request's reason becomes the run's.

        `unfinished` skips the final evaluation and sets the status to stopped: the run can be resumed.
        """
        ...

    @property
    def interrupted(self) -> bool:
        """Whether the run was interrupted: features should skip long work, which is done after a resume."""
        ...

    def snapshot(self) -> Snapshot: ...


FeatureState: TypeAlias = dict[str, Any]  # JSON that a feature wrote and reads back


class Feature:
    """Reacts to events, independently of other features. `name` is the key of its state in a checkpoint."""

    name = ""

    def __call__(self, event: Event, control: Control) -> None:
        """React to an event."""

    def due(self, now: Clock) -> int | None:
        """The number of the next update after which this feature must see the state; compiled calls end there."""
        del now
        return None

    def state(self) -> FeatureState:
        """The feature's state for a checkpoint, as JSON."""
        return {}

    def restore(self, state: FeatureState) -> None:
        """Restore what `state` returned."""
