"""Feature that pauses a run at a rung of a sweep, and stops it at a critical alert where asked to."""

from __future__ import annotations

from gymlab.core.clock import Clock
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
        self._steps_per_update = 1  # env steps
        self._requested = False

    def announce(self, recipe: Recipe) -> None:
        """Compiled calls of many updates must end where it stops."""
        self._steps_per_update = recipe.n_envs * recipe.n_steps

    def due(self, now: Clock) -> int | None:
        if self._pause_at is None or now.env_steps >= self._pause_at:
            return None
        return now.updates - (now.env_steps - self._pause_at) // self._steps_per_update

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
