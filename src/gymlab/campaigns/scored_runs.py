"""Scored runs: trains runs by commands, side by side, and scores each on fresh episodes.

Used by `results`, `compare`, `autotune` and `pretrained make`. Nothing is lost when this process ends: a run is found
again by its name, and its record is kept in its folder.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, cast

from gymlab.campaigns.benchmark_table.record import NAME, RunRecord, known_record, make_record, write_record
from gymlab.campaigns.benchmark_table.seeded_recipe import SeededRecipe, fresh_seed
from gymlab.campaigns.executors.processes import Command, ProcessExecutor, TrainCommands, start_gymlab, train_command
from gymlab.campaigns.executors.protocol import RunCommandBegan, RunEnd, RunFailed, RunFinished, RunReport
from gymlab.campaigns.run_spec import RunSpec, RunState, read_run_state
from gymlab.process.child import Child
from gymlab.runs import platform
from gymlab.runs.manifest import read_manifest
from gymlab.runs.paths import RunPaths

if TYPE_CHECKING:
    from gymlab.session.evaluate_checkpoints import CheckpointScoreRecord

Phase = Literal["train", "resume", "wait", "score"]


class ScoredRun(NamedTuple):
    """A run to train and to score; without a seeded recipe it is one of the user's, which is only scored."""

    paths: RunPaths
    seeded: SeededRecipe | None
    episodes: int
    group: str = "results"

    @property
    def title(self) -> str:
        if self.seeded is None:
            return self.paths.run_id
        return " ".join([self.seeded.recipe.name, *self.seeded.overrides, f"seed {self.seeded.seed}"])

    def next_phase(self) -> Phase | None:
        """What it needs next; None where its record exists."""
        state = read_run_state(self.paths)
        if state is RunState.NOT_BEGUN:
            return "train"
        if state is RunState.RUNNING:
            return "wait"
        if self.seeded is not None and state is not RunState.FINISHED:
            return "resume"
        return None if known_record(self.paths, self.episodes) is not None else "score"

    def spec(self, number: int) -> RunSpec:
        arguments: tuple[str, ...] = ()
        if self.seeded is not None:
            named = ("--run-id", self.paths.run_id, "--group", self.group, "-q")
            arguments = ("train", *self.seeded.train_arguments(), *named)
        return RunSpec(
            number,
            str(self.paths.root.parent),
            self.paths.run_id,
            0 if self.seeded is None else self.seeded.seed,
            arguments=arguments,
            budget_env_steps=None if self.seeded is None else self.seeded.budget_env_steps,
        )


class ScoredRunOutcome(NamedTuple):
    """The record of a run, or why there is none."""

    run: ScoredRun
    record: RunRecord | None
    error: str = ""


class ScoredRunsWatch(Protocol):
    """Callbacks that show the progress."""

    def began(self, run: ScoredRun, phase: Phase) -> None: ...
    def ended(self, outcome: ScoredRunOutcome) -> None: ...
    def ticked(self, active: Sequence[ScoredRun], waiting: Sequence[ScoredRun]) -> None: ...


class ScoredRunsInterrupted(Exception):
    """A signal ended the campaign. What was done until then is in `done`; the same command continues."""

    def __init__(self, done: list[ScoredRunOutcome], number: int) -> None:
        super().__init__("interrupted")
        self.done = done
        self.exit_code = 128 + number


def train_and_score(runs: Sequence[ScoredRun], *, width: int, watch: ScoredRunsWatch) -> list[ScoredRunOutcome]:
    """Train and score all runs, `width` at a time; one that fails does not stop the others."""
    done: list[ScoredRunOutcome] = []
    waiting = dict(enumerate(runs))
    active: dict[int, ScoredRun] = {}

    def take(report: RunReport) -> None:
        run = runs[report.member]
        if waiting.pop(report.member, None) is not None:
            active[report.member] = run
        if isinstance(report, RunCommandBegan):
            watch.began(run, cast(Phase, report.phase))
        elif isinstance(report, RunEnd):
            del active[report.member]
            outcome = _outcome(run, report)
            if outcome is not None:
                done.append(outcome)
                watch.ended(outcome)
        watch.ticked(list(active.values()), list(waiting.values()))

    with ProcessExecutor(min(width, max(len(runs), 1)), _TrainAndScore(runs)) as executor:
        for number, run in enumerate(runs):
            executor.submit(run.spec(number))
        with _signals(executor) as received:
            for report in executor.reports():
                take(report)
    if received:
        raise ScoredRunsInterrupted(done, received[0])
    return done


def _outcome(run: ScoredRun, end: RunEnd) -> ScoredRunOutcome | None:
    """None where the run was stopped before it had a record."""
    if isinstance(end, RunFailed):
        return ScoredRunOutcome(run, None, end.message)
    record = known_record(run.paths, run.episodes) if isinstance(end, RunFinished) else None
    return None if record is None else ScoredRunOutcome(run, record)


class _TrainAndScore(TrainCommands):
    """After training, `gymlab eval` on fresh episodes, whose result becomes the run's record."""

    def __init__(self, runs: Sequence[ScoredRun]) -> None:
        self._runs = runs

    def next(self, spec: RunSpec) -> Command | None:
        run = self._runs[spec.number]
        phase = run.next_phase()
        if phase == "score":
            return Command("score", lambda: _start_scoring(run))
        return None if phase is None else train_command(spec, phase)

    def error(self, spec: RunSpec, command: Command, child: Child, *, timed_out: bool) -> str | None:
        error = super().error(spec, command, child, timed_out=timed_out)
        if error is not None or command.phase != "score":
            return error
        run = self._runs[spec.number]
        output = child.output_text()
        try:
            evaluation: CheckpointScoreRecord = json.loads(output.strip().splitlines()[-1])
            write_record(run.paths.root / NAME, make_record(run.paths, run.seeded, evaluation))
        except (ValueError, KeyError, IndexError, TypeError):
            return output[-2000:].strip()
        return None


def _start_scoring(run: ScoredRun) -> Child:
    policy = f"{run.paths.root.resolve()}/best"
    seed = fresh_seed(int(read_manifest(run.paths).get("seed", 0)))
    return start_gymlab("eval", policy, "--episodes", str(run.episodes), "--seed", str(seed), "--json")


@contextmanager
def _signals(executor: ProcessExecutor) -> Iterator[list[int]]:
    """SIGINT and SIGTERM stop the executor's processes, every one of them anew: a second ends a training at once."""
    received: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        executor.stop(f"interrupted by {signal.Signals(number).name}")

    ours = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, platform.TERMINATE) if ours}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
