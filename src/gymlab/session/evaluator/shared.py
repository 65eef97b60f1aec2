"""Evaluation for many runs in one process: they share a few evaluation processes, one for each core.

In threads of their own they would take turns with Python; with a process each there would be hundreds.
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
from gymlab.features.evaluate_async import Answer, Goal, Question
from gymlab.recipes.schema import Recipe
from gymlab.runs.tensors import encode
from gymlab.session.evaluator.client import ExaminerProcess
from gymlab.session.evaluator.protocol import Evaluate
from gymlab.training.evaluation import Abandon, Abandoned, Evaluation
from gymlab.training.events import EvaluationKind
from gymlab.training.named_tensors import to_tensors
from gymlab.training.state import Policy

POLL_SECONDS = 0.2  # how late a signal may be noticed


class Examiners:
    """So many processes. They are started for the first run that wants one; the runs differ in nothing they know of.

    The runs take turns (`core.turns`), and step aside while they wait for an answer.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._leaving = ExitStack()
        self._started = False
        self._closed = threading.Event()
        self._idle: queue.SimpleQueue[ExaminerProcess] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="examiner")
        self._folder = Path(self._leaving.enter_context(tempfile.TemporaryDirectory(prefix="gymlab-")))
        self._numbers = itertools.count()

    def desk(self, recipe: Recipe, goal: Goal, here: tuple[Policy, Evaluate]) -> Desk:
        """Where one run asks; the arguments are `ExaminerProcess`'s."""
        if not self._started:
            self._started = True
            for _ in range(self._count):
                self._idle.put(self._leaving.enter_context(ExaminerProcess(recipe, goal, here)))
        return Desk(self)

    def submit(self, question: Question) -> Future[Answer | None]:
        return self._threads.submit(self._work, question)

    def keep(self, policy: Policy) -> Path:
        """A policy that is in no checkpoint, as a file."""
        path = self._folder / f"{next(self._numbers)}.safetensors"
        path.write_bytes(encode(to_tensors(policy)))
        return path

    def close(self) -> None:
        self._closed.set()
        self._threads.shutdown(cancel_futures=True)
        self._leaving.close()

    def _work(self, question: Question) -> Answer | None:
        examiner = self._idle.get()
        try:
            examiner.ask(question)
            return examiner.answer(self._closed.is_set)
        finally:
            self._idle.put(examiner)


class Desk:
    """One run's examiner: what `EvaluateAside` asks, and `Evaluate` too."""

    def __init__(self, examiners: Examiners) -> None:
        self._examiners = examiners
        self._answer: Future[Answer | None] | None = None

    def ask(self, question: Question) -> None:
        self._answer = self._examiners.submit(question)

    def answer(self, abandon: Callable[[], bool]) -> Answer | None:
        assert self._answer is not None
        while not abandon():
            with yield_lock(), suppress(TimeoutError):
                return self._answer.result(POLL_SECONDS)
        return None

    def evaluate(self, policy: Policy, kind: EvaluationKind, seed: int, abandon: Abandon) -> Evaluation:
        """Score a policy and wait for it."""
        path = self._examiners.keep(policy)
        try:
            self.ask(Question(path, kind, seed, seed))
            answer = self.answer(abandon)
        finally:
            path.unlink(missing_ok=True)
        if answer is None:
            raise Abandoned
        return answer.evaluation
