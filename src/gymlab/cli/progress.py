"""Runs jobs side by side and prints their progress: starts, results and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from gymlab.campaigns.scored_runs import Phase, ScoredRun, ScoredRunOutcome

_EVERY_SECONDS = {True: 1.0, False: 60.0}  # in a terminal, and in a file
_PHASES = {"train": "trains", "resume": "goes on", "wait": "trains elsewhere: waiting", "score": "is scored"}


class Progress:
    """Prints progress on stderr; on a terminal the last line is a status line."""

    def __init__(
        self, total: int, width: int, speeds: Mapping[str, float], keep: Callable[[ScoredRunOutcome], None] | None
    ) -> None:
        self._total = total
        self._width = width
        self._speeds = speeds
        self._keep = keep
        self._done = 0
        self._last_tick = 0.0
        self._began = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def began(self, job: ScoredRun, phase: Phase) -> None:
        self._say(f"{job.title}: {_PHASES[phase]}")

    def ended(self, outcome: ScoredRunOutcome) -> None:
        self._done += 1
        record = outcome.record
        if self._keep is not None:
            self._keep(outcome)
        if record is None:
            self._say(f"{outcome.run.title}: FAILED: {outcome.error or 'no result'}")
            return
        exact = "" if record.exact is None else f", exact {record.exact:.4g}"
        self._say(
            f"{outcome.run.title}: greedy {record.greedy.mean:.4g}, sampled {record.sampled.mean:.4g}{exact} "
            f"({record.env_steps} env_steps, {record.seconds:.0f} s)"
        )

    def ticked(self, active: Sequence[ScoredRun], waiting: Sequence[ScoredRun]) -> None:
        from gymlab.campaigns.eta import steps_done, time_left
        from gymlab.core.format import format_duration

        now = time.monotonic()
        if now - self._last_tick < _EVERY_SECONDS[self._terminal] or (not self._terminal and now - self._began < 2):
            return
        self._last_tick = now
        shares = [
            f"{seeded.recipe.name} s{seeded.seed} {min(steps_done(job)[0] / seeded.budget_env_steps, 1):.0%}"
            for job in active
            if (seeded := job.seeded) is not None
        ]
        left = time_left([*active, *waiting], self._speeds).format(self._width)
        parts = [
            f"{self._done} of {self._total} done",
            *shares,
            format_duration(now - self._began),
            f"{left} left",
        ]
        line = " · ".join(parts)
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{line[:200]}")
            sys.stderr.flush()
        else:
            typer.echo(line, err=True)

    def _say(self, text: str) -> None:
        typer.echo(f"\r\x1b[K{text}" if self._terminal else text, err=True)

    def close(self) -> None:
        if self._terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def run_jobs(
    jobs: Sequence[ScoredRun],
    width: int,
    runs_root: Path,
    again: str,
    keep: Callable[[ScoredRunOutcome], None] | None = None,
) -> list[ScoredRunOutcome]:
    """Run all jobs with progress on stderr; `keep` is called with each outcome.

    A stop signal ends them with checkpoints; the message names `again` as the command that continues.
    """
    from gymlab.campaigns.eta import known_speeds
    from gymlab.campaigns.scored_runs import ScoredRunsInterrupted, train_and_score

    progress = Progress(len(jobs), width, known_speeds(runs_root), keep)
    try:
        return train_and_score(jobs, width=width, watch=progress)
    except ScoredRunsInterrupted as ended:
        progress.close()
        typer.echo(f"interrupted, nothing is lost: {again} goes on", err=True)
        raise typer.Exit(ended.exit_code) from ended
    finally:
        progress.close()
