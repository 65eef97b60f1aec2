"""SweepRunner: claims the trials of a sweep, has an executor train their runs, and stores the results.

It keeps nothing that must survive a kill: the trial store and the runs' folders are read again on resume.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from gymlab.campaigns.executors.pool import Pool
from gymlab.campaigns.executors.protocol import Executor, RunEnd, RunFailed, RunNotBegun, RunReport
from gymlab.campaigns.executors.vmapped import VmappedExecutor
from gymlab.campaigns.run_spec import RunSpec
from gymlab.campaigns.sweep.plan import SweepPlan
from gymlab.campaigns.sweep.progress import SweepProgress
from gymlab.campaigns.sweep.pruning import decide
from gymlab.campaigns.sweep.sampler import TrialSampler
from gymlab.campaigns.sweep.space import overrides
from gymlab.campaigns.sweep.store import Trial, TrialStatus, TrialStore, has_ended
from gymlab.campaigns.sweep.trial_runs import RungState, TrialRuns, read_rung_state, wait_and_clean
from gymlab.core.errors import UserError
from gymlab.core.statistics import iqm
from gymlab.core.types import Json
from gymlab.runs.platform import usable_cores
from gymlab.session.signals import watch_signals

POLL_SECONDS = 0.3  # between two reads of the store while other processes train the trials that are left
MAX_TRIES = 3  # of a run whose worker process dies
_STRIDE = 10_000  # a run's number is its trial's index x _STRIDE + the position of its seed


class SweepOutcome(NamedTuple):
    """How one process of a sweep ended."""

    plan: SweepPlan
    trials: list[Trial]
    complete: bool
    exit_code: int


class SweepObserver(Protocol):
    """Is notified of the trials and of every report of a run."""

    def on_trials(self, trials: list[Trial]) -> None: ...
    def on_report(self, trial: int, seed: int, report: RunReport) -> None: ...


@dataclass
class _ActiveTrial:
    """A trial of this process, on its way to a rung."""

    trial: Trial
    rung: int = 0  # the number of the next rung; the number of rungs: the end of the budget
    running: set[int] = field(default_factory=set)  # seeds
    tries: dict[int, int] = field(default_factory=dict)  # by seed
    at_rung: bool = False  # waits there for the results of other trials
    retry: bool = False  # a worker process died: resume its run
    fault: str = ""  # why the trial has failed


class SweepRunner:
    """Trains trials in one process until every trial of the sweep has ended."""

    def __init__(
        self,
        runs_root: Path,
        store: TrialStore,
        observer: SweepObserver,
        command: tuple[str, ...],
        *,
        take_over: bool = False,
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> None:
        """`take_over`: also claim running trials of other machines. Once `out_of_time()` no further trial is begun."""
        self.store = store
        self.plan = store.plan
        self._observer = observer
        self._runs = TrialRuns(runs_root, self.plan, command)
        self._sampler = TrialSampler(self.plan)
        self._active: dict[int, _ActiveTrial] = {}
        self._stopped = False
        self._executor: Executor | None = None
        self._take_over = take_over
        self._out_of_time = out_of_time

    def stop(self, reason: str) -> None:
        """End running runs with a checkpoint. May be called by a signal handler."""
        self._stopped = True
        if self._executor is not None:
            self._executor.stop(reason)

    @property
    def stopped(self) -> bool:
        return self._stopped

    def run(self, executor: Executor) -> bool:
        """True once all trials have ended, False if stopped."""
        self._executor = executor
        while not self.stopped:
            specs = self._next_specs(executor.size)
            if not specs and not self._active and self._complete():
                return True
            if not specs:
                time.sleep(POLL_SECONDS)  # other processes own the trials that are left, or we wait for them at a rung
                continue
            for spec in specs:
                executor.submit(spec)
            for report in executor.reports():
                self._handle(report, executor)
        return False

    def _complete(self) -> bool:
        """Every trial has ended or, once out of time, no living process owns one."""
        trials = self.store.trials()
        if self._out_of_time():
            return all(trial.ended or trial.state == "waiting" or has_ended(trial.owner) for trial in trials)
        return len(trials) >= self.plan.trials and all(trial.ended for trial in trials)

    def _handle(self, report: RunReport, executor: Executor) -> None:
        index, place = divmod(report.member, _STRIDE)
        active = self._active[index]
        seed = self.plan.seeds[place]
        self._observer.on_report(index, seed, report)
        if not isinstance(report, RunEnd):
            return
        active.running.discard(seed)
        if isinstance(report, RunNotBegun) or self.stopped:
            return
        if isinstance(report, RunFailed):
            self._handle_failure(active, seed, report)
        if not active.running:
            self._reach_rung(active)
        if executor.size is not None:  # else the next round begins once all runs of this one have ended
            for spec in self._next_specs(executor.size):
                executor.submit(spec)

    def _next_specs(self, size: int | None) -> list[RunSpec]:
        """Runs to keep `size` workers busy; all runs of the round if `size` is None."""
        found: list[RunSpec] = []
        busy = sum(len(active.running) for active in self._active.values())
        while not self.stopped and (size is None or busy + len(found) < size):
            active = self._next_trial()
            if active is None:
                break
            found += self._specs_to_rung(active)
        return found

    def _next_trial(self) -> _ActiveTrial | None:
        """An active trial to retry or to train past its rung, else a newly claimed one."""
        for active in self._active.values():
            if active.retry:
                active.retry = False
                return active
        active_trial = self._leave_rung()
        if active_trial is not None or self._out_of_time():
            return active_trial
        with self.store.locked():
            self._add_round()
            trial = self.store.claim(self._active, take_over=self._take_over)
        if trial is None:
            return None
        self._active[trial.index] = _ActiveTrial(trial)
        self._observer.on_trials(self.store.trials())
        return self._active[trial.index]

    def _leave_rung(self) -> _ActiveTrial | None:
        """The first trial that may continue past its rung; prunes those before it that may not."""
        waiting = [active for active in self._active.values() if active.at_rung]
        trials = self.store.trials() if waiting else []
        for active in waiting:
            decision = decide(self.plan, trials, active.trial.index, active.rung)
            if decision == "prune" or (decision == "wait" and self._out_of_time()):
                why = "pruned" if decision == "prune" else "time was up"
                self._finish(active, "pruned", f"{why} at {self.plan.rungs[active.rung]} env_steps")
            elif decision == "continue":
                active.at_rung = False
                active.rung += 1
                return active
        return None

    def _add_round(self) -> None:
        """Add the trials of the next round once all earlier ones have ended, or those a kill left out of this one."""
        trials = self.store.trials()
        begin = len(trials)
        if begin >= self.plan.trials:
            return
        members = self.plan.members(self.plan.round_of(begin))
        if not all(trial.ended for trial in trials[: members.start]):
            return
        for index in range(begin, members.stop):
            params = self._sampler.params(index, trials)
            first = index < len(self.plan.first)
            self.store.add(index, params, self.plan.first[index] if first else overrides(self.plan.dimensions, params))

    def _specs_to_rung(self, active: _ActiveTrial) -> list[RunSpec]:
        """The runs that train a trial to its next rung; none if they have reached it already."""
        index = active.trial.index
        pause_at = self._pause_at(active)
        try:
            self._runs.recipe(active.trial)
        except UserError as error:
            self._finish(active, "failed", f"refused: {error}")
            return []
        found = []
        for place, seed in enumerate(self.plan.seeds):
            paths = self._runs.paths(active.trial, seed)
            if not wait_and_clean(paths, lambda: self.stopped):
                return []
            if read_rung_state(paths, pause_at).phase in ("new", "unfinished", "stopped by user"):
                found.append(self._runs.spec(active.trial, seed, index * _STRIDE + place, pause_at))
                active.running.add(seed)
        if not found:
            self._reach_rung(active)
        return found

    def _pause_at(self, active: _ActiveTrial) -> int | None:
        return self.plan.rungs[active.rung] if active.rung < len(self.plan.rungs) else None

    def _handle_failure(self, active: _ActiveTrial, seed: int, report: RunFailed) -> None:
        """Retry a run whose worker process died, up to MAX_TRIES; any other failure fails the trial."""
        state = read_rung_state(self._runs.paths(active.trial, seed), self._pause_at(active))
        active.tries[seed] = active.tries.get(seed, 0) + 1
        died = "process" in report.message and state.phase in ("new", "unfinished") and not report.refused
        if not died or active.tries[seed] >= MAX_TRIES:
            active.fault = f"seed {seed}: {report.message.splitlines()[0][:300]}"

    def _reach_rung(self, active: _ActiveTrial) -> None:
        """Store what the runs have reached: a value at the rung, or how the trial ended."""
        pause_at = self._pause_at(active)
        states = [read_rung_state(self._runs.paths(active.trial, seed), pause_at) for seed in self.plan.seeds]
        ends = ("stopped by alert", "failed", "stopped by user")
        ended = next((state for state in states if state.phase in ends), None)
        if active.fault or ended is not None:
            by_alert = ended is not None and ended.phase == "stopped by alert"
            self._finish(active, "pruned" if by_alert else "failed", active.fault or (ended.reason if ended else ""))
        elif any(state.phase != "reached" for state in states):
            active.retry = True
        elif active.rung < len(self.plan.rungs):
            self.store.report(active.trial, active.rung, _iqm_score(states))
            active.at_rung = True
        else:
            self._finish(active, "finished", "")

    def _finish(self, active: _ActiveTrial, state: TrialStatus, reason: str) -> None:
        """Store a trial's end: a finished one has the score of its runs, a pruned one its value at its last rung."""
        trial = active.trial
        paths = [self._runs.paths(trial, seed) for seed in self.plan.seeds]
        states = [read_rung_state(each, None) for each in paths]
        facts: dict[str, Json] = {
            "scores": [each.score for each in states] if state == "finished" else [],
            "runs": [each.run_id for each in paths if each.exists],
            "env_steps": sum(each.env_steps for each in states),
            "reason": reason,
        }
        value = None
        if state == "finished":
            value = _iqm_score(states)
        elif state == "pruned":
            rungs = next((each.rungs for each in self.store.trials() if each.index == trial.index), {})
            value = rungs[max(rungs)] if rungs else None
        self.store.finish(trial, state, value, facts)
        self._active.pop(trial.index, None)
        self._observer.on_trials(self.store.trials())


def _iqm_score(states: list[RungState]) -> float:
    return float(iqm([state.score for state in states if state.score is not None]))


def run_sweep(
    runs_root: Path,
    store: TrialStore,
    pool: Pool | int | None,
    *,
    output: str,
    command: tuple[str, ...],
    take_over: bool = False,
    out_of_time: Callable[[], bool] = lambda: False,
) -> SweepOutcome:
    """Train trials until all have ended or a signal arrives. `pool`: a running one, or how many workers to start."""
    plan = store.plan
    executor: AbstractContextManager[Executor]
    if plan.how == "vmap":
        executor = nullcontext(VmappedExecutor())
    else:
        executor = nullcontext(pool) if isinstance(pool, Pool) else Pool(pool or usable_cores())
    with SweepProgress(plan, output) as progress:
        runner = SweepRunner(runs_root, store, progress, command, take_over=take_over, out_of_time=out_of_time)
        progress.on_trials(store.trials())
        with watch_signals(runner.stop) as interrupts, executor as opened:
            complete = runner.run(opened)
        trials = store.trials()
        progress.on_trials(trials)
    return SweepOutcome(plan, trials, complete, 0 if complete else interrupts.exit_code)
