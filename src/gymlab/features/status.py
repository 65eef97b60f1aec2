"""StatusFile: keeps the run's status file current: heartbeat, clock, best return, solved, and how it ended."""

from __future__ import annotations

from typing import Any

from gymlab.runs.store import RunStore
from gymlab.training.events import Control, Ended, Evaluated, Event, Feature, Updated


class StatusFile(Feature):
    name = "status"

    def __init__(self, store: RunStore, solved_at: float | None, solved_by: str) -> None:
        self._store = store
        self._solved_at = solved_at
        self._solved_by = solved_by
        self._best: float | None = None

    def state(self) -> dict[str, Any]:
        return {"best": self._best}

    def restore(self, state: dict[str, Any]) -> None:
        self._best = state["best"]

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            self._store.heartbeat(event.clock)
        elif isinstance(event, Evaluated):
            score = event.evaluation.judged_by(self._solved_by)
            self._best = score if self._best is None else max(self._best, score)
            solved = None if self._solved_at is None else score >= self._solved_at
            self._store.note(best_return=self._best, solved=solved, eval=event.evaluation.as_json())
        elif isinstance(event, Ended):
            self._store.end(event.status, event.reason, event.clock)  # type: ignore[arg-type]
