"""The trainer's side of evaluation in another process. If that process dies it is started again, and in the end done
without: a run never hangs or ends because of its evaluations.
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
from gymlab.features.evaluate_async import Answer, Goal, Question
from gymlab.process.child import Child, start_worker
from gymlab.recipes.schema import Recipe
from gymlab.recipes.write import dump_recipe
from gymlab.session.evaluator.protocol import Evaluate, examine, question_line, read_answer
from gymlab.training.evaluation import Abandon, Abandoned
from gymlab.training.state import Policy

log = logging.getLogger(__name__)
ATTEMPTS = 3
POLL_SECONDS = 0.05
# Where cores are scarce the trainer goes first. At 10 the evaluator gets done so late that training waits for it.
NICE = 5


class ExaminerProcess:
    """Answers questions in a process of its own. It is started at once: what it must import and compile is then done
    when the first question comes, most of it while the trainer compiles.
    """

    def __init__(
        self, recipe: Recipe, goal: Goal, here: tuple[Policy, Evaluate], cores: tuple[int, ...] | None = None
    ) -> None:
        self._recipe = recipe
        self._goal = goal
        self._here = here
        self._cores = cores
        self._process: Child | None = None
        self._answers: queue.Queue[str | None] = queue.Queue()
        self._question: Question | None = None
        self._attempts = 0
        self._alone = False

    def ask(self, question: Question) -> None:
        """Have a question answered; one that nobody waits for any more is dropped."""
        if self._question is not None:
            self._end()
        self._question = question
        self._attempts = 0
        self._send()

    def answer(self, abandon: Callable[[], bool]) -> Answer | None:
        """Wait for the answer; None when given up, which leaves the question standing."""
        while not abandon():
            if self._process is None:
                return self._answer_here(abandon)
            try:
                line = self._answers.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            if line is not None:
                self._question = None
                return read_answer(line)
            self._died()
        return None

    def _answer_here(self, abandon: Abandon) -> Answer | None:
        assert self._question is not None
        try:
            answer = examine(self._question, *self._here, self._goal, abandon)
        except Abandoned:
            return None
        self._question = None
        return answer

    def _died(self) -> None:
        assert self._process is not None
        told = self._process.stderr_tail()
        self._end()
        if self._attempts < ATTEMPTS:
            log.warning("the evaluation process died (%s): it is started again", told)
            self._send()
        else:
            log.warning("the evaluation process died %d times (%s): evaluating in between updates", ATTEMPTS, told)

    def _send(self) -> None:
        assert self._question is not None
        self._attempts += 1
        if self._alone:
            return
        process = self._process or self._start()
        process.send(question_line(self._question))

    def _start(self) -> Child:
        opening = {
            "recipe": dump_recipe(self._recipe),
            "registered": registration_json(self._recipe.env.id),
            "nice": NICE,
            "goal": {"eval_return": self._goal.eval_return, "solved_by": self._goal.solved_by},
            "cores": self._cores,
        }
        self._answers = queue.Queue()
        self._process = start_worker(
            "gymlab.session.evaluator.process", self._answers.put, environ={"JAX_PLATFORMS": "cpu"}
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
        except UserError as error:  # the env cannot be made elsewhere
            log.info("evaluating in between updates: %s", error)
            self._alone = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
