"""A member's feature that reports to whoever shows all members together."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from gymlab.campaigns.executors.protocol import Alerted, Began, Progressed, Report, Scored
from gymlab.core.clock import Clock
from gymlab.features.console import first_line
from gymlab.session.build import Parts
from gymlab.training.events import AlertRaised, Control, Evaluated, Event, Feature, Started, Updated

REPORT_SECONDS = 0.25  # between two reports of mere progress
Tell = Callable[[Report], None]


class Reporter(Feature):
    """Says where a member is, a few times a second. Nothing it does changes what is learnt."""

    name = "reporter"

    def __init__(self, member: int, tell: Tell, solved_by: str = "greedy") -> None:
        self._member = member
        self._tell = tell
        self._solved_by = solved_by
        self._at = 0.0
        self._from = Clock()
        self._control: Control | None = None
        self._stop: str | None = None

    def stop(self, reason: str) -> None:
        """Have the member end in order; from any thread, and before it has begun too."""
        self._stop = reason
        if self._control is not None:
            self._control.request_stop(reason, unfinished=True)

    def announce(self, parts: Parts, notes: list[str]) -> None:
        self._solved_by = parts.recipe.stop.solved_by
        self._tell(Began(self._member, first_line(parts), tuple(notes)))

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started):
            self._control = control
            self._from = event.clock
            self._at = time.monotonic()
            if self._stop is not None:
                control.request_stop(self._stop, unfinished=True)
        elif isinstance(event, Updated) and time.monotonic() - self._at >= REPORT_SECONDS:
            self._progress(event.clock, event.rows[-1].metrics)
        elif isinstance(event, Evaluated):
            score = event.evaluation.judged_by(self._solved_by)
            self._tell(Scored(self._member, event.clock.env_steps, event.kind, _finite(score)))
        elif isinstance(event, AlertRaised):
            alert: Any = event.alert
            self._tell(Alerted(self._member, event.clock.env_steps, alert.id, str(alert.severity)))

    def _progress(self, clock: Clock, row: Any) -> None:
        self._at = time.monotonic()
        seconds = clock.seconds - self._from.seconds
        rate = (clock.env_steps - self._from.env_steps) / seconds if seconds > 0 else math.nan
        mean = _finite(row.get("roll/return_mean", math.nan))
        self._tell(Progressed(self._member, clock.env_steps, clock.updates, row["time/progress"], mean, _finite(rate)))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
