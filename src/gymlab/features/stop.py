"""Ends a run that has reached what it was for."""

from __future__ import annotations

from gymlab.rollout.episodes import WINDOW
from gymlab.training.events import Control, Evaluated, EvaluationWanted, Event, Feature, Updated


class Stop(Feature):
    """A periodic evaluation at the threshold asks for a fresh, larger one; only that one ends the run."""

    name = "stop"

    def __init__(self, eval_return: float | None, train_return: float | None, solved_by: str) -> None:
        self._eval_return, self._train_return, self._solved_by = eval_return, train_return, solved_by

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated) and self._train_return is not None:
            last = event.rows[-1].metrics
            if last["roll/return_window"] >= WINDOW and last["roll/return_mean"] >= self._train_return:
                control.request_stop(f"train_return {last['roll/return_mean']:g} >= {self._train_return:g}")
        elif isinstance(event, Evaluated) and self._eval_return is not None and event.kind != "final":
            score = event.evaluation.judged_by(self._solved_by)
            if score < self._eval_return:
                return
            if event.kind == "periodic":
                control.emit(EvaluationWanted(event.clock, "confirm"))
            else:
                control.request_stop(f"solved: eval_return {score:g} >= {self._eval_return:g}")
