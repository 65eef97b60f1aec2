"""StatusFile: keeps the run's status file current: heartbeat, clock, score, solved, and how it ended.

The *score* is the final evaluation, on fresh episodes, of the last checkpoint (of the confirmed one where that stopped
the run); *solved* follows from it. The *peak* is the best periodic evaluation: no table or verdict rests on it.
"""

from __future__ import annotations

from gymlab.runs.records import SummaryRecord
from gymlab.runs.store import RunStore
from gymlab.training.events import Control, Ended, Evaluated, Event, Feature, FeatureState, Started, Updated


class StatusFile(Feature):
    name = "status"

    def __init__(self, store: RunStore, solved_at: float | None, solved_by: str) -> None:
        self._store = store
        self._solved_at = solved_at
        self._solved_by = solved_by
        self._peak: float | None = None
        self._scored = False  # whether the summary holds a score

    def state(self) -> FeatureState:
        return {"peak": self._peak}

    def restore(self, state: FeatureState) -> None:
        self._peak = state["peak"]

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Started):
            self._scored = self._store.status.get("summary", {}).get("score") is not None
        elif isinstance(event, Updated):
            self._store.heartbeat(event.clock)
            if self._scored:  # of an earlier checkpoint, before the run was continued
                self._scored = False
                self._store.note(score=None, solved=None)
        elif isinstance(event, Evaluated):
            self._evaluated(event)
        elif isinstance(event, Ended):
            self._store.end(event.status, event.reason, event.clock)

    def _evaluated(self, event: Evaluated) -> None:
        value = event.evaluation.judged_by(self._solved_by)
        summary: SummaryRecord = {"eval": event.evaluation.as_json(), "eval_source": event.evaluation.source}
        if event.kind == "periodic":
            self._peak = value if self._peak is None else max(self._peak, value)
            summary["peak"] = self._peak
        elif event.kind == "final":
            self._scored = True
            summary |= {"score": value, "solved": None if self._solved_at is None else value >= self._solved_at}
        self._store.note(**summary)
