"""What happens in a run, and what features may do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from gymlab.core.clock import Clock
from gymlab.core.types import Histogram
from gymlab.training.evaluation import Evaluation
from gymlab.training.state import Policy

EvaluationKind = Literal["periodic", "confirm", "final"]
CheckpointKind = Literal["periodic", "asked", "best", "last"]  # asked: it is being evaluated


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


@dataclass(frozen=True)
class Updated(Event):
    """One or more updates were done; the clock is the last one's."""

    rows: tuple[UpdateRow, ...] = ()


@dataclass(frozen=True)
class Measured(Event):
    """Further values for the row of update `clock.updates`."""

    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded(Event):
    """Rows as the store holds them: those of `Updated`, or fewer where a row stands for several updates."""

    rows: tuple[UpdateRow, ...] = ()


@dataclass(frozen=True)
class HistogramsRequested(Event):
    """Quantiles, histograms and the like are wanted soon, because of the row at `clock`.

    They are taken a fixed number of updates later, so that when does not depend on how updates are cut into calls.
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
    """The checkpoint saved at `clock` has turned out to be the best so far."""

    path: Path


@dataclass(frozen=True)
class AlertRaised(Event):
    """A rule has found something wrong: an alert of `gymlab.alerts`, with its id, severity, metric and advice."""

    alert: Any


@dataclass(frozen=True)
class AlertCleared(Event):
    """What an alert was about is over."""

    alert: Any


@dataclass(frozen=True)
class PauseRequested(Event):
    """Wait before the next update, or (`paused=False`) wait no longer."""

    paused: bool = True


@dataclass(frozen=True)
class Paused(Event):
    """Sent again and again while the run waits; `seconds` is how long it has so far. A stop ends the wait too."""

    seconds: float = 0.0


@dataclass(frozen=True)
class KeyPressed(Event):
    """Somebody at the terminal pressed a key."""

    key: str = ""


@dataclass(frozen=True)
class Stopping(Event):
    """No update follows. Features finish what they owe: a final evaluation, a last checkpoint."""

    reason: str
    interrupted: bool = False


@dataclass(frozen=True)
class Ended(Event):
    """The last event, after the last checkpoint."""

    reason: str
    status: str


class Snapshot(NamedTuple):
    """A policy as it was at some moment; immutable, so it can be used while training goes on."""

    policy: Policy
    clock: Clock


class Control(Protocol):
    """All that a feature can do."""

    def emit(self, event: Event) -> None:
        """Tell all features, once the current event has reached everyone."""
        ...

    def request_stop(self, reason: str, *, unfinished: bool = False) -> None:
        """No further update; the first reason given is the run's.

        `unfinished` leaves out the final evaluation and lists the run as stopped, to be gone on with later.
        """
        ...

    @property
    def interrupted(self) -> bool:
        """The run is to end soon: long work is better left undone, to be made up for when it goes on."""
        ...

    def snapshot(self) -> Snapshot: ...


class Feature:
    """Reacts to events, in any order with others. `name` keys its state in a checkpoint."""

    name = ""

    def __call__(self, event: Event, control: Control) -> None:
        """React to an event."""

    def due(self, updates: int) -> int | None:
        """The next update after which this feature must see the state; compiled calls end there."""
        del updates
        return None

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold for this feature to go on, as JSON."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
