"""A group in one process and one vmapped program: a thread for each member, which waits for the others at each call."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gymlab.campaigns.executors.members import last_report, session
from gymlab.campaigns.executors.pool import POLL_SECONDS
from gymlab.campaigns.executors.protocol import ENDS, Report, Task
from gymlab.campaigns.executors.reporter import Reporter
from gymlab.core.cooperative_lock import hold_lock
from gymlab.core.errors import UserError
from gymlab.recipes.schema import Recipe
from gymlab.runs.platform import usable_cores
from gymlab.session.build import Parts, build
from gymlab.session.compile_cache import Kept
from gymlab.session.evaluator.shared import Examiners
from gymlab.session.result import Result
from gymlab.session.video import MOST_TOGETHER
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.trainer_vmapped import VmappedRuns


class Together:
    """As a pool: reports come out until every member has had its last word."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._turn = threading.Lock()
        self._table = VmappedRuns(len(tasks), self._turn)
        self._kept = Kept()
        self._examiners = Examiners(min(len(tasks), usable_cores()))
        self._heard: queue.Queue[Report] = queue.Queue()
        self._reporters = [Reporter(task.number, self._heard.put) for task in tasks]

    def stop(self, reason: str) -> None:
        """Every member ends in order, after the call under way."""
        for reporter in self._reporters:
            reporter.stop(reason)

    def reports(self) -> Iterator[Report]:
        for seat in range(len(self._tasks)):
            threading.Thread(target=self._train, args=(seat,), name=f"member-{seat}", daemon=True).start()
        left = len(self._tasks)
        try:
            while left:
                try:
                    report = self._heard.get(timeout=POLL_SECONDS)  # so that signals are noticed
                except queue.Empty:
                    continue
                left -= isinstance(report, ENDS)
                yield report
        finally:
            self._examiners.close()

    def _train(self, seat: int) -> None:
        task = self._tasks[seat]

        def train() -> Result:
            try:
                return session(task, self._reporters[seat], self._maker(seat))
            finally:
                self._table.leave(seat)  # nobody waits for one that is gone

        with hold_lock(self._turn):
            self._heard.put(last_report(task, train))

    def _maker(self, seat: int) -> Callable[..., Parts]:
        def make(recipe: Recipe, seed: int, **more: Any) -> Parts:
            parts = build(recipe, seed, kept=self._kept, **more)
            if not isinstance(parts.program, CompiledTrainer):
                parts.program.close()
                raise UserError(
                    f"--vmap needs a compiled env, and {recipe.env.id} is stepped by the host: leave it out"
                )
            parts.program = self._table.seat(seat, parts.program, parts.looks)
            parts.together = len(self._tasks)
            parts.examiners = self._examiners
            if parts.together > MOST_TOGETHER and recipe.video.clips:
                parts.notes.append(
                    f"more than {MOST_TOGETHER} runs together are not filmed: `gymlab video RUN` does it"
                )
            return parts

        return make
