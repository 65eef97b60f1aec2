"""EvaluatorPool: a few evaluation processes, one per core, shared by many runs in one process.

Threads would compete for Python's GIL; a process per run would be hundreds.
"""

from __future__ import annotations

import itertools
import queue
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

from gymlab.core.cooperative_lock import yield_lock
from gymlab.features.evaluate_async import EvaluationGoal, EvaluationJob, EvaluationResult
from gymlab.recipes.schema import Recipe
from gymlab.runs.tensors import encode
from gymlab.session.evaluator.client import EvaluatorProcess
from gymlab.session.evaluator.protocol import Evaluate
from gymlab.training.evaluation import Abandon, Abandoned, Evaluation
from gymlab.training.events import EvaluationKind
from gymlab.training.named_tensors import to_tensors
from gymlab.training.state import Policy

POLL_SECONDS = 0.2  # the most by which a signal is noticed late


class EvaluatorPool:
    """`count` processes, started for the first run that asks; the runs differ in nothing that evaluation depends on.

    The runs share a cooperative lock (`core.cooperative_lock`) and release it while they wait for a result.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._stack = ExitStack()
        self._started = False
        self._closed = threading.Event()
        self._idle: queue.SimpleQueue[EvaluatorProcess] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="evaluator")
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gymlab-")))
        self._numbers = itertools.count()

    def evaluator(self, recipe: Recipe, goal: EvaluationGoal, fallback: tuple[Policy, Evaluate]) -> PooledEvaluator:
        """An evaluator for one run; the arguments are those of `EvaluatorProcess`."""
        if not self._started:
            self._started = True
            for _ in range(self._count):
                self._idle.put(self._stack.enter_context(EvaluatorProcess(recipe, goal, fallback)))
        return PooledEvaluator(self)

    def submit(self, job: EvaluationJob) -> Future[EvaluationResult | None]:
        return self._threads.submit(self._run, job)

    def write_policy(self, policy: Policy) -> Path:
        """Write a policy that is in no checkpoint to a temporary file."""
        path = self._folder / f"{next(self._numbers)}.safetensors"
        path.write_bytes(encode(to_tensors(policy)))
        return path

    def close(self) -> None:
        self._closed.set()
        self._threads.shutdown(cancel_futures=True)
        self._stack.close()

    def _run(self, job: EvaluationJob) -> EvaluationResult | None:
        process = self._idle.get()
        try:
            process.submit(job)
            return process.wait(self._closed.is_set)
        finally:
            self._idle.put(process)


class PooledEvaluator:
    """One run's access to a pool, for both `EvaluateAsync` and `EvaluateSync`."""

    def __init__(self, pool: EvaluatorPool) -> None:
        self._pool = pool
        self._result: Future[EvaluationResult | None] | None = None

    def submit(self, job: EvaluationJob) -> None:
        self._result = self._pool.submit(job)

    def wait(self, abandon: Callable[[], bool]) -> EvaluationResult | None:
        assert self._result is not None
        while not abandon():
            with yield_lock(), suppress(TimeoutError):
                return self._result.result(POLL_SECONDS)
        return None

    def evaluate(self, policy: Policy, kind: EvaluationKind, seed: int, abandon: Abandon) -> Evaluation:
        """Score a policy and wait for the result; raises Abandoned."""
        path = self._pool.write_policy(policy)
        try:
            self.submit(EvaluationJob(path, kind, seed, seed))
            result = self.wait(abandon)
        finally:
            path.unlink(missing_ok=True)
        if result is None:
            raise Abandoned
        return result.evaluation
