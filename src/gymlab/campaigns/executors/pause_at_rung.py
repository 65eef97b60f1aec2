"""Feature that pauses a run at a rung of a sweep, and stops it at a critical alert where asked to."""

from __future__ import annotations

from gymlab.recipes.schema import Recipe
from gymlab.training.events import (
    AlertRaised,
    Control,
    Evaluated,
    EvaluationRequested,
    Event,
    Feature,
    Started,
    Updated,
)

AT_RUNG = "reached a rung"
RULED_OUT = "ruled out by"


class PauseAtRung(Feature):
    """Evaluates the policy once `pause_at` env steps are done, then stops the session; the run can be resumed.

    Clocks and metrics alone decide: the same run is stopped at the same update, whenever it is trained.
    """

    name = "pause_at_rung"

    def __init__(self, pause_at: int | None, *, stop_at_critical: bool) -> None:
        self._pause_at = pause_at
        self._stop_at_critical = stop_at_critical
        self._last_update: int | None = None
        self._requested = False

    def announce(self, recipe: Recipe) -> None:
        """Compiled calls of many updates must end where it stops."""
        if self._pause_at is not None:
            self._last_update = -(-self._pause_at // (recipe.n_envs * recipe.n_steps))

    def due(self, updates: int) -> int | None:
        return self._last_update if self._last_update is not None and updates < self._last_update else None

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, AlertRaised):
            alert = event.alert
            if self._stop_at_critical and str(alert.severity) == "critical":
                control.request_stop(f"{RULED_OUT} {alert.id}", unfinished=True)
        elif self._pause_at is None or event.clock.env_steps < self._pause_at:
            return
        elif isinstance(event, Started | Updated) and not self._requested:  # a signal may have cut the evaluation short
            self._requested = True
            control.emit(EvaluationRequested(event.clock, "periodic"))
        elif isinstance(event, Evaluated) and self._requested:
            control.request_stop(AT_RUNG, unfinished=True)
