"""Evaluation beside training: asked for at one boundary, in effect at the next.

What is evaluated is a checkpoint, so a result belongs to a step that can be gone back to, and one that a killed run was
waiting for is asked for again when it goes on. When a result takes effect does not depend on how fast it came: where it
is late, training waits. So at most one is under way, none is dropped, and runs are as reproducible as without.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gymlab.core.clock import Clock
from gymlab.core.period import Period
from gymlab.features.evaluation_metrics import Patience, episode_seed, measured
from gymlab.training.evaluation import Evaluation
from gymlab.training.events import (
    Checkpointed,
    CheckpointRequested,
    Control,
    Evaluated,
    EvaluationKind,
    EvaluationRequested,
    Event,
    Feature,
    Measured,
    Started,
    Stopping,
    Updated,
)


@dataclass(frozen=True)
class Goal:
    """What an evaluation must reach for a fresh, larger one of the same policy to follow at once."""

    eval_return: float | None
    solved_by: str

    def reached(self, evaluation: Evaluation | None) -> bool:
        return (
            self.eval_return is not None
            and evaluation is not None
            and evaluation.judged_by(self.solved_by) >= self.eval_return
        )


class Question(NamedTuple):
    """An evaluation of one checkpoint's policy."""

    checkpoint: Path  # its folder, or a file that holds a policy alone
    kind: EvaluationKind
    seed: int
    confirming_seed: int


class Answer(NamedTuple):
    evaluation: Evaluation
    confirming: Evaluation | None  # where the first reached the goal
    seconds: float


class Examiner(Protocol):
    """Answers one question at a time, elsewhere."""

    def ask(self, question: Question) -> None: ...
    def answer(self, abandon: Callable[[], bool]) -> Answer | None:
        """Wait for the answer; None when given up, which leaves the question standing."""
        ...


class EvaluateAside(Feature):
    """Its state holds what it waits for, so that a run goes on as if it had never been interrupted."""

    name = "evaluate_aside"

    def __init__(
        self,
        examiner: Examiner,
        period: Period,
        goal: Goal,
        *,
        seed: int,
        last_update: int,
        checkpoint_at: Callable[[int], Path],
        from_return: float | None = None,
    ) -> None:
        self._examiner = examiner
        self._period = period
        self._goal = goal
        self._seed = seed
        self._last_update = last_update
        self._checkpoint_at = checkpoint_at
        self._patience = Patience(from_return)
        self._pending: Clock | None = None  # where the policy under examination is from
        self._asked = False  # the examiner knows
        self._owed = False  # a boundary was passed while a signal cut the wait for the one before
        self._confirmed: tuple[Clock, Evaluation] | None = None
        self._ending = False

    def due(self, updates: int) -> int:
        return self._period.due(updates)

    def state(self) -> dict[str, Any]:
        confirmed = self._confirmed if self._solved else None
        return {
            "pending": None if self._pending is None else _steps(self._pending),
            "owed": self._owed,
            "confirmed": None if confirmed is None else [_steps(confirmed[0]), confirmed[1].to_json()],
            **self._patience.state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._pending = None if state["pending"] is None else Clock(**state["pending"])
        self._owed = state["owed"]
        if state["confirmed"] is not None:
            clock, evaluation = state["confirmed"]
            self._confirmed = Clock(**clock), Evaluation.from_json(evaluation)
        self._patience.restore(state)

    @property
    def _solved(self) -> bool:
        return self._confirmed is not None and self._goal.reached(self._confirmed[1])

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            due = self._period.fires(event.clock.updates) and event.clock.updates < self._last_update
            if due and self._patience.look(event.rows[-1].metrics):
                self._boundary(event.clock, control)
        elif isinstance(event, Checkpointed):
            self._checkpointed(event, control)
        elif isinstance(event, EvaluationRequested):
            self._wanted(event, control)
        elif isinstance(event, Started) and self._pending is not None:
            self._ask(self._checkpoint_at(self._pending.env_steps), "periodic", self._pending)
            if self._owed:
                self._boundary(event.clock, control)
        elif isinstance(event, Stopping) and not event.interrupted:
            self._stopping(event.clock, control)

    def _boundary(self, clock: Clock, control: Control) -> None:
        if self._pending is not None and not self._settle(clock, control):
            self._owed = True
            return
        self._examine(clock, control)

    def _examine(self, clock: Clock, control: Control) -> None:
        self._pending = clock
        self._asked = False
        self._owed = False
        control.emit(CheckpointRequested(clock, "asked"))

    def _checkpointed(self, event: Checkpointed, control: Control) -> None:
        if self._ending and "last" in event.kinds:
            self._ending = False
            self._ask(event.path, "final", event.clock)
            answer = self._examiner.answer(lambda: control.interrupted)
            if answer is not None:
                self._tell(event.clock, "final", answer.evaluation, answer.seconds, control)
        elif self._pending is not None and not self._asked and event.clock.updates == self._pending.updates:
            self._ask(event.path, "periodic", self._pending)

    def _ask(self, path: Path, kind: EvaluationKind, clock: Clock) -> None:
        self._asked = True
        seeds = (episode_seed(self._seed, kind, clock), episode_seed(self._seed, "confirm", clock))
        self._examiner.ask(Question(path, kind, *seeds))

    def _settle(self, now: Clock, control: Control) -> bool:
        """Take the answer that is due, waiting for it if need be; False where a signal cut the wait short."""
        assert self._pending is not None
        began = time.perf_counter()
        answer = self._examiner.answer(lambda: control.interrupted)
        if answer is None:
            return False
        control.emit(Measured(now, {"time/evaluate_wait": time.perf_counter() - began}))
        clock = self._pending
        self._pending = None
        self._confirmed = None if answer.confirming is None else (clock, answer.confirming)
        self._tell(clock, "periodic", answer.evaluation, answer.seconds, control)
        return True

    def _wanted(self, event: EvaluationRequested, control: Control) -> None:
        if self._confirmed is not None and event.clock.updates == self._confirmed[0].updates:
            clock, evaluation = self._confirmed
            self._tell(clock, "confirm", evaluation, 0.0, control)
        elif self._pending is None:  # asked for by hand: its result comes with the next boundary's
            self._examine(event.clock, control)

    def _stopping(self, clock: Clock, control: Control) -> None:
        """Stopped because a checkpoint was confirmed, a run ends with that result; else with its last policy's."""
        if self._confirmed is not None and self._solved:
            control.emit(Evaluated(self._confirmed[0], "final", self._confirmed[1]))
            self._pending = None
        elif self._pending is None or self._settle(clock, control):
            self._ending = True  # the checkpoint that every run ends with is what gets examined

    def _tell(
        self, clock: Clock, kind: EvaluationKind, evaluation: Evaluation, seconds: float, control: Control
    ) -> None:
        control.emit(Evaluated(clock, kind, evaluation))
        control.emit(Measured(clock, measured(evaluation, seconds)))


def _steps(clock: Clock) -> dict[str, Any]:
    """A clock without its seconds, which differ from run to run."""
    return clock._replace(seconds=0.0)._asdict()
