"""Does the trials of a sweep: claims them, has their runs trained by warm workers, and writes down what they came to.

Nothing here need survive: whatever is lost in a kill is read again from the book and from the runs' folders.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gymlab.campaigns.executors.protocol import Executor, RunEnd, RunFailed, RunNotBegun, RunReport
from gymlab.campaigns.run_spec import RunSpec
from gymlab.campaigns.sweep.pruning import decide
from gymlab.campaigns.sweep.space import overrides
from gymlab.campaigns.sweep.store import Ledger, is_gone
from gymlab.campaigns.sweep.suggest import Suggester
from gymlab.campaigns.sweep.trial import Row, State
from gymlab.campaigns.sweep.trial_runs import Standing, Tasks, clear_way, standing
from gymlab.core.errors import UserError
from gymlab.core.statistics import iqm

LOOK_SECONDS = 0.3  # between two looks at what other processes have done
MOST_TRIES = 3  # of a run whose process dies under it
_STRIDE = 10_000  # member numbers of one trial, in what workers report


class Watch(Protocol):
    """Who is told how it goes."""

    def rows(self, rows: list[Row]) -> None: ...
    def report(self, trial: int, seed: int, report: RunReport) -> None: ...
    def say(self, text: str) -> None: ...


@dataclass
class _Trial:
    """A trial of ours, on its way to a rung."""

    row: Row
    rung: int = 0  # the number of the next one; as many as there are: the end
    left: set[int] = field(default_factory=set)  # seeds under way
    tries: dict[int, int] = field(default_factory=dict)
    waits: bool = False  # at its rung, for others
    again: bool = False  # a run of it has lost its process, and is to go on
    fault: str = ""  # why nothing will come of it


class Driver:
    """One process of a sweep, until every trial has ended."""

    def __init__(self, runs_root: Path, ledger: Ledger, watch: Watch, command: tuple[str, ...]) -> None:
        self.ledger = ledger
        self.plan = ledger.plan
        self._watch = watch
        self._tasks = Tasks(runs_root, self.plan, command)
        self._suggester = Suggester(self.plan)
        self._mine: dict[int, _Trial] = {}
        self._stopped: str | None = None
        self._executor: Executor | None = None
        self.until: Callable[[], bool] = lambda: False  # no further trial is begun once this says so
        self.take_over = False

    def stop(self, reason: str) -> None:
        """Runs under way end in order with a checkpoint. May be called by a signal handler."""
        self._stopped = reason
        if self._executor is not None:
            self._executor.stop(reason)

    @property
    def stopped(self) -> bool:
        return self._stopped is not None

    def run(self, executor: Executor) -> bool:
        """Whether all trials have ended; False where it was stopped."""
        while not self.stopped:
            tasks = self._more(executor.size)
            if not tasks and not self._mine and self._over():
                return True
            if not tasks:
                time.sleep(LOOK_SECONDS)  # others have what is left, or we wait for them at a rung
                continue
            self._executor = executor
            for task in tasks:
                executor.submit(task)
            for report in executor.reports():
                self._hear(report, executor)
        return False

    def _over(self) -> bool:
        """Every trial has ended or, where no more are begun, is nobody's."""
        rows = self.ledger.rows()
        late = self.until()
        if late:
            return all(row.ended or row.state == "waiting" or is_gone(row.owner) for row in rows)
        return len(rows) >= self.plan.trials and all(row.ended for row in rows)

    def _hear(self, report: RunReport, executor: Executor) -> None:
        index, place = divmod(report.member, _STRIDE)
        trial = self._mine[index]
        seed = self.plan.seeds[place]
        self._watch.report(index, seed, report)
        if not isinstance(report, RunEnd):
            return
        trial.left.discard(seed)
        if isinstance(report, RunNotBegun) or self.stopped:
            return
        if isinstance(report, RunFailed):
            self._failed(trial, seed, report)
        if not trial.left:
            self._arrived(trial)
        if executor.size is not None:  # else the next round is begun once all of this one are in
            for task in self._more(executor.size):
                executor.submit(task)

    def _more(self, size: int | None) -> list[RunSpec]:
        """Tasks to keep `size` workers busy; all of the round where there is no such limit."""
        found: list[RunSpec] = []
        busy = sum(len(trial.left) for trial in self._mine.values())
        while not self.stopped and (size is None or busy + len(found) < size):
            trial = self._next()
            if trial is None:
                break
            found += self._leg(trial)
        return found

    def _next(self) -> _Trial | None:
        """A trial of ours that may go on from its rung, or one more that nobody does."""
        for trial in self._mine.values():
            if trial.again:
                trial.again = False
                return trial
        if any(trial.waits for trial in self._mine.values()):
            rows = self.ledger.rows()
            for trial in [trial for trial in self._mine.values() if trial.waits]:
                decision = decide(self.plan, rows, trial.row.index, trial.rung)
                if decision == "give up" or (decision == "wait" and self.until()):
                    why = "given up" if decision == "give up" else "time was up"
                    self._end(trial, "pruned", f"{why} at {self.plan.rungs[trial.rung]} env_steps")
                elif decision == "go on":
                    trial.waits = False
                    trial.rung = trial.rung + 1
                    return trial
        if self.until():
            return None
        with self.ledger.locked():
            self._fill()
            row = self.ledger.claim(self._mine, take_over=self.take_over)
        if row is None:
            return None
        trial = self._mine[row.index] = _Trial(row)
        self._watch.rows(self.ledger.rows())
        return trial

    def _fill(self) -> None:
        """Put in the trials of the next round once all before have ended, or what a kill left out of this one."""
        rows = self.ledger.rows()
        begun = len(rows)
        if begun >= self.plan.trials:
            return
        members = self.plan.members(self.plan.round_of(begun))
        if not all(row.ended for row in rows[: members.start]):
            return
        for index in range(begun, members.stop):
            params = self._suggester.params(index, rows)
            first = index < len(self.plan.first)
            given = self.plan.first[index] if first else overrides(self.plan.dimensions, params)
            self.ledger.add(index, params, given)

    def _leg(self, trial: _Trial) -> list[RunSpec]:
        """The tasks that bring a trial to its next rung; where its runs are there already, it goes on at once."""
        plan = self.plan
        index = trial.row.index
        try:
            self._tasks.recipe(trial.row)
        except UserError as error:
            self._end(trial, "failed", f"refused: {error}")
            return []
        found = []
        for place, seed in enumerate(plan.seeds):
            paths = self._tasks.paths(trial.row, seed)
            if not clear_way(paths, lambda: self.stopped):
                return []
            if standing(paths, self._pause(trial)).phase in ("new", "begun", "stopped"):
                found.append(self._tasks.task(trial.row, seed, index * _STRIDE + place, self._pause(trial)))
                trial.left.add(seed)
        if not found:
            self._arrived(trial)
        return found

    def _pause(self, trial: _Trial) -> int | None:
        return self.plan.rungs[trial.rung] if trial.rung < len(self.plan.rungs) else None

    def _failed(self, trial: _Trial, seed: int, report: RunFailed) -> None:
        """A process that died under a run took nothing but time: it is tried again. All else ends the trial."""
        found = standing(self._tasks.paths(trial.row, seed), self._pause(trial))
        trial.tries[seed] = trial.tries.get(seed, 0) + 1
        lost = "process" in report.message and found.phase in ("new", "begun") and not report.refused
        if not lost or trial.tries[seed] >= MOST_TRIES:
            trial.fault = f"seed {seed}: {report.message.splitlines()[0][:300]}"

    def _arrived(self, trial: _Trial) -> None:
        """All runs have come as far as they were to: note that, and see what is next."""
        found = [standing(self._tasks.paths(trial.row, seed), self._pause(trial)) for seed in self.plan.seeds]
        bad = next((each for each in found if each.phase in ("ruled out", "failed", "stopped")), None)
        if trial.fault or bad is not None:
            sick = bad is not None and bad.phase == "ruled out"
            self._end(trial, "pruned" if sick else "failed", trial.fault or (bad.reason if bad else ""))
        elif any(each.phase != "there" for each in found):
            trial.again = True
        elif trial.rung < len(self.plan.rungs):
            self.ledger.report(trial.row, trial.rung, _value(found))
            trial.waits = True
        else:
            self._end(trial, "finished", "")

    def _end(self, trial: _Trial, state: State, reason: str) -> None:
        """The last word: of a finished trial the score of its runs, of a pruned one what it had at its last rung."""
        seeds = self.plan.seeds
        value = None
        every = [standing(self._tasks.paths(trial.row, seed), None) for seed in seeds]
        facts = {
            "scores": [each.score for each in every] if state == "finished" else [],
            "runs": [paths.run_id for seed in seeds if (paths := self._tasks.paths(trial.row, seed)).exists],
            "env_steps": sum(each.env_steps for each in every),
            "reason": reason,
        }
        if state == "finished":
            value = _value(every)
        elif state == "pruned":
            rungs = next((row.rungs for row in self.ledger.rows() if row.index == trial.row.index), {})
            value = rungs[max(rungs)] if rungs else None
        self.ledger.finish(trial.row, state, value, facts)
        self._mine.pop(trial.row.index, None)
        self._watch.rows(self.ledger.rows())


def _value(found: list[Standing]) -> float:
    return float(iqm([each.score for each in found if each.score is not None]))
