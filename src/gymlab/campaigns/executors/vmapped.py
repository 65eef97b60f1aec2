"""Vmapped executor: runs in one process and one compiled program, with a thread for each that joins every call."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gymlab.campaigns.executors.in_process import run_end, train_spec
from gymlab.campaigns.executors.pool import POLL_SECONDS
from gymlab.campaigns.executors.protocol import RunEnd, RunNotBegun, RunReport
from gymlab.campaigns.executors.reporter import Reporter
from gymlab.campaigns.run_spec import RunSpec
from gymlab.core.cooperative_lock import hold_lock
from gymlab.core.errors import UserError
from gymlab.recipes.schema import Recipe
from gymlab.runs.platform import usable_cores
from gymlab.session.build import Parts, build
from gymlab.session.compile_cache import CompileCache
from gymlab.session.evaluator.pool import EvaluatorPool
from gymlab.session.result import Result
from gymlab.session.run_features import MOST_FILMED
from gymlab.training.trainer_compiled import CompiledTrainer
from gymlab.training.trainer_vmapped import VmappedRuns


class VmappedExecutor:
    """An `Executor` whose submitted runs are one program. What is submitted meanwhile is the next program."""

    size = None
    description = "one vmapped program"

    def __init__(self) -> None:
        self._waiting: list[RunSpec] = []
        self._program: _Program | None = None
        self._stop: str | None = None

    def submit(self, spec: RunSpec) -> None:
        self._waiting.append(spec)

    def stop(self, reason: str) -> None:
        """Every run ends with a checkpoint, after the call under way. May be called by a signal handler."""
        self._stop = reason
        if self._program is not None:
            self._program.stop(reason)

    def reports(self) -> Iterator[RunReport]:
        while self._waiting:
            specs, self._waiting = self._waiting, []
            if self._stop is not None and self._program is not None:  # stopped in the program before
                yield from (RunNotBegun(spec.number) for spec in specs)
                continue
            self._program = _Program(specs)
            if self._stop is not None:
                self._program.stop(self._stop)
            yield from self._program.reports()


class _Program:
    """The runs of one vmapped program."""

    def __init__(self, specs: Sequence[RunSpec]) -> None:
        self._specs = specs
        self._lock = threading.Lock()
        self._runs = VmappedRuns(len(specs), self._lock)
        self._compile_cache = CompileCache()
        self._evaluator_pool = EvaluatorPool(min(len(specs), usable_cores()))
        self._received: queue.Queue[RunReport] = queue.Queue()
        self._reporters = [Reporter(spec.number, self._received.put) for spec in specs]

    def stop(self, reason: str) -> None:
        for reporter in self._reporters:
            reporter.stop(reason)

    def reports(self) -> Iterator[RunReport]:
        for index in range(len(self._specs)):
            threading.Thread(target=self._train, args=(index,), name=f"member-{index}", daemon=True).start()
        left = len(self._specs)
        try:
            while left:
                try:
                    report = self._received.get(timeout=POLL_SECONDS)  # signals are handled in between
                except queue.Empty:
                    continue
                left -= isinstance(report, RunEnd)
                yield report
        finally:
            self._evaluator_pool.close()

    def _train(self, index: int) -> None:
        spec = self._specs[index]

        def train() -> Result:
            try:
                return train_spec(spec, self._reporters[index], self._maker(index))
            finally:
                self._runs.leave(index)  # the others no longer wait for it

        with hold_lock(self._lock):
            self._received.put(run_end(spec, train))

    def _maker(self, index: int) -> Callable[..., Parts]:
        def make(recipe: Recipe, seed: int, **more: Any) -> Parts:
            parts = build(recipe, seed, compile_cache=self._compile_cache, **more)
            if not isinstance(parts.program, CompiledTrainer):
                parts.program.close()
                raise UserError(
                    f"--vmap needs a compiled env, and {recipe.env.id} is stepped by the host: leave it out"
                )
            parts.program = self._runs.member_trainer(index, parts.program, parts.histogram_schedule)
            parts.vmap_size = len(self._specs)
            parts.evaluator_pool = self._evaluator_pool
            if parts.vmap_size > MOST_FILMED and recipe.video.clips:
                parts.notes.append(f"more than {MOST_FILMED} runs together are not filmed: `gymlab video RUN` does it")
            return parts

        return make
