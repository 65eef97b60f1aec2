"""Feature that reports a run's progress to its executor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from gymlab.campaigns.executors.protocol import RunAlerted, RunBegan, RunProgressed, RunReport, RunScored
from gymlab.core.clock import Clock
from gymlab.session.run_summary import RunSummary
from gymlab.training.events import AlertRaised, Control, Evaluated, Event, Feature, Started, Updated

REPORT_SECONDS = 0.25  # between two reports of mere progress
Send = Callable[[RunReport], None]


class Reporter(Feature):
    """Sends progress a few times a second, evaluations and alerts at once. Nothing it does changes what is learnt."""

    name = "reporter"

    def __init__(self, member: int, send: Send, solved_by: str = "greedy") -> None:
        self._member = member
        self._send = send
        self._solved_by = solved_by
        self._sent = 0.0
        self._session_start = Clock()
        self._control: Control | None = None
        self._stop: str | None = None

    def stop(self, reason: str) -> None:
        """Stop the run with a checkpoint; from any thread, and before it has begun too."""
        self._stop = reason
        if self._control is not None:
            self._control.request_stop(reason, unfinished=True)

    def announce(self, summary: RunSummary) -> None:
        self._solved_by = summary.recipe.stop.solved_by
        self._send(RunBegan(self._member, summary.header, tuple(summary.notes)))

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started):
            self._control = control
            self._session_start = event.clock
            self._sent = time.monotonic()
            if self._stop is not None:
                control.request_stop(self._stop, unfinished=True)
        elif isinstance(event, Updated) and time.monotonic() - self._sent >= REPORT_SECONDS:
            self._progress(event.clock, event.rows[-1].metrics)
        elif isinstance(event, Evaluated):
            score = event.evaluation.judged_by(self._solved_by)
            self._send(RunScored(self._member, event.clock.env_steps, event.kind, _finite(score)))
        elif isinstance(event, AlertRaised):
            alert = event.alert
            self._send(RunAlerted(self._member, event.clock.env_steps, alert.id, str(alert.severity)))

    def _progress(self, clock: Clock, row: Mapping[str, float]) -> None:
        self._sent = time.monotonic()
        seconds = clock.seconds - self._session_start.seconds
        rate = (clock.env_steps - self._session_start.env_steps) / seconds if seconds > 0 else math.nan
        mean = _finite(row.get("roll/return_mean", math.nan))
        self._send(
            RunProgressed(self._member, clock.env_steps, clock.updates, row["time/progress"], mean, _finite(rate))
        )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
