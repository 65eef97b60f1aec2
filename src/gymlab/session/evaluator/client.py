"""EvaluatorProcess: a trainer's evaluations in a child process, restarted when it dies.

After `ATTEMPTS` deaths the trainer evaluates in its own process: a run never hangs or ends because of its evaluations.
"""

from __future__ import annotations

import json
import logging
import queue
from collections.abc import Callable
from types import TracebackType
from typing import Self

from gymlab.core.errors import UserError
from gymlab.envs.registry import registration_json
from gymlab.features.evaluate_async import EvaluationGoal, EvaluationJob, EvaluationResult
from gymlab.process.child import Child, start_worker
from gymlab.recipes.schema import Recipe
from gymlab.recipes.write import dump_recipe
from gymlab.session.evaluator.protocol import Evaluate, decode_result, encode_job, run_job
from gymlab.training.evaluation import Abandon, Abandoned
from gymlab.training.state import Policy

log = logging.getLogger(__name__)
ATTEMPTS = 3
POLL_SECONDS = 0.05
# On few cores the trainer takes precedence. At 10 the evaluator is so late that training waits for it.
NICE = 5


class EvaluatorProcess:
    """Does jobs in a child process, started at once: most of its imports and compiling then overlap with the
    trainer's.

    `fallback`: a policy of the right shape and a function to evaluate with in this process.
    """

    def __init__(
        self,
        recipe: Recipe,
        goal: EvaluationGoal,
        fallback: tuple[Policy, Evaluate],
        cores: tuple[int, ...] | None = None,
    ) -> None:
        self._recipe = recipe
        self._goal = goal
        self._fallback = fallback
        self._cores = cores
        self._process: Child | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()  # None: the process has died
        self._job: EvaluationJob | None = None
        self._attempts = 0
        self._disabled = False  # the env cannot be made in another process

    def submit(self, job: EvaluationJob) -> None:
        """Start a job; an unfinished one is cancelled."""
        if self._job is not None:
            self._end()
        self._job = job
        self._attempts = 0
        self._send()

    def wait(self, abandon: Callable[[], bool]) -> EvaluationResult | None:
        """The job's result; None if abandoned, and the job continues."""
        while not abandon():
            if self._process is None:
                return self._run_in_process(abandon)
            try:
                line = self._lines.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            if line is not None:
                self._job = None
                return decode_result(line)
            self._restart()
        return None

    def _run_in_process(self, abandon: Abandon) -> EvaluationResult | None:
        assert self._job is not None
        try:
            result = run_job(self._job, *self._fallback, self._goal, abandon)
        except Abandoned:
            return None
        self._job = None
        return result

    def _restart(self) -> None:
        assert self._process is not None
        stderr = self._process.stderr_tail()
        self._end()
        if self._attempts < ATTEMPTS:
            log.warning("the evaluation process died (%s): it is started again", stderr)
            self._send()
        else:
            log.warning("the evaluation process died %d times (%s): evaluating between updates", ATTEMPTS, stderr)

    def _send(self) -> None:
        assert self._job is not None
        self._attempts += 1
        if self._disabled:
            return
        process = self._process or self._start()
        process.send(encode_job(self._job))

    def _start(self) -> Child:
        opening = {
            "recipe": dump_recipe(self._recipe),
            "registered": registration_json(self._recipe.env.id),
            "nice": NICE,
            "goal": {"eval_return": self._goal.eval_return, "solved_by": self._goal.solved_by},
            "cores": self._cores,
        }
        self._lines = queue.Queue()
        self._process = start_worker(
            "gymlab.session.evaluator.worker", self._lines.put, environ={"JAX_PLATFORMS": "cpu"}
        )
        self._process.send(json.dumps(opening))
        return self._process

    def _end(self) -> None:
        process = self._process
        self._process = None
        if process is not None:
            process.end()  # it holds nothing that could be lost

    def __enter__(self) -> Self:
        try:
            self._start()
        except UserError as error:
            log.info("evaluating between updates: %s", error)
            self._disabled = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
