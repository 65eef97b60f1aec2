"""Ends a run that has reached what it was for."""

from __future__ import annotations

from typing import Any

from gymlab.rollout.episodes import WINDOW
from gymlab.training.events import Control, Evaluated, EvaluationWanted, Event, Feature, Started, Updated


class Stop(Feature):
    """A periodic evaluation at the threshold asks for a fresh, larger one; only that one ends the run."""

    name = "stop"

    def __init__(self, eval_return: float | None, train_return: float | None, solved_by: str) -> None:
        self._eval_return, self._train_return, self._solved_by = eval_return, train_return, solved_by
        self._reached: str | None = None  # until the final evaluation is done: a run cut short there ends there

    def state(self) -> dict[str, Any]:
        return {"reached": self._reached, "thresholds": self._thresholds} if self._reached else {}

    def restore(self, state: dict[str, Any]) -> None:
        self._reached = state["reached"] if state["thresholds"] == self._thresholds else None

    @property
    def _thresholds(self) -> list[float | None]:
        return [self._eval_return, self._train_return]

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started) and self._reached is not None:
            control.request_stop(self._reached)
        elif isinstance(event, Evaluated) and event.kind == "final":
            self._reached = None
        elif isinstance(event, Updated) and self._train_return is not None:
            last = event.rows[-1].metrics
            if last["roll/return_window"] >= WINDOW and last["roll/return_mean"] >= self._train_return:
                self._stop(f"train_return {last['roll/return_mean']:g} >= {self._train_return:g}", control)
        elif isinstance(event, Evaluated) and self._eval_return is not None:
            score = event.evaluation.judged_by(self._solved_by)
            if score < self._eval_return:
                return
            if event.kind == "periodic":
                control.emit(EvaluationWanted(event.clock, "confirm"))
            else:
                self._stop(f"solved: eval_return {score:g} >= {self._eval_return:g}", control)

    def _stop(self, reason: str, control: Control) -> None:
        self._reached = reason
        control.request_stop(reason)
