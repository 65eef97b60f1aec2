"""SweepProgress: the live table of a sweep's trials on a terminal; elsewhere one line for each trial that has ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from gymlab.campaigns.executors.protocol import RunAlerted, RunFailed, RunProgressed, RunReport, RunScored
from gymlab.campaigns.sweep.plan import SweepPlan
from gymlab.campaigns.sweep.store import Trial, best_trial
from gymlab.campaigns.sweep.sweep_status import format_headline
from gymlab.terminal.progress_table import STATUS_STYLES, ProgressTable, TableMode
from gymlab.terminal.screen import Span, StyledLine, supports_ansi

_ENDED_ROWS = 6  # of the table: the trials that ended last
_COLUMNS = ("trial", "settings", "state", "done", "return", "score", "steps/s", "alerts")
_LEFT_ALIGNED = ("settings", "state", "alerts")


@dataclass
class _RunProgress:
    """The latest reports of one run."""

    progress: float | None = None
    mean_return: float | None = None
    speed: float | None = None
    score: float | None = None
    alerts: set[str] = field(default_factory=set)


class SweepProgress:
    """Draws to stderr between `__enter__` and `__exit__`; stdout is left to the result."""

    def __init__(self, plan: SweepPlan, output: str) -> None:
        """`output`: `people`, `json` or `quiet`. Only people get the table, only `quiet` gets no lines."""
        self._plan = plan
        self._trials: list[Trial] = []
        self._printed: set[int] | None = None  # trials whose end was printed or that had ended before
        self._runs: dict[tuple[int, int], _RunProgress] = {}  # by trial and seed
        live = output == "people" and supports_ansi(sys.stderr)
        mode: TableMode = "live" if live else "silent" if output == "quiet" else "plain"
        self._table = ProgressTable(sys.stderr, mode, self._lines)

    def __enter__(self) -> Self:
        self._table.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._table.close()

    def on_trials(self, trials: list[Trial]) -> None:
        self._trials = trials
        self._table.update(now=True)
        if self._table.mode == "plain":
            self._print_ended()

    def on_report(self, trial: int, seed: int, report: RunReport) -> None:
        run = self._runs.setdefault((trial, seed), _RunProgress())
        if isinstance(report, RunProgressed):
            run.progress = report.progress
            run.mean_return = report.mean_return
            run.speed = report.steps_per_second
        elif isinstance(report, RunScored):
            run.score = report.score
        elif isinstance(report, RunAlerted):
            run.alerts.add(report.alert)
        elif isinstance(report, RunFailed) and self._table.mode == "plain":
            self._table.print(f"trial {trial}, seed {seed}: {report.message.splitlines()[0]}")
        self._table.update()

    def _print_ended(self) -> None:
        ended = {trial.index for trial in self._trials if trial.ended}
        if self._printed is None:
            self._table.print(format_headline(self._plan, self._trials))
            self._printed = ended
        for index in sorted(ended - self._printed):
            trial = self._trials[index]
            score = "-" if trial.value is None else f"{trial.value:.4g}"
            reason = f" ({trial.reason})" if trial.reason else ""
            settings = " ".join(trial.overrides) or "the recipe"
            count = f"{len(ended)} of {self._plan.trials}"
            self._table.print(f"trial {index}: {trial.state} {score}{reason}, {settings} · {count}")
        self._printed = ended

    def _lines(self, height: int) -> list[StyledLine]:
        """The headline, then the best trial, the last ones that ended, and the running ones."""
        best = best_trial(self._trials)
        ended = [trial for trial in self._trials if trial.ended and trial is not best][-_ENDED_ROWS:]
        running = [trial for trial in self._trials if trial.state == "running"]
        trials = [*([best] if best else []), *ended, *running][: max(height - 3, 0)]
        cells = [_COLUMNS, *(self._cells(trial, best) for trial in trials)]
        styles = ["bold", *(STATUS_STYLES.get(trial.state, "") for trial in trials)]
        lines = [[Span(format_headline(self._plan, self._trials), "bold")]]
        return lines + [_align(row, cells, style) for row, style in zip(cells, styles, strict=True)]

    def _cells(self, trial: Trial, best: Trial | None) -> tuple[str, ...]:
        runs = [run for (index, _), run in self._runs.items() if index == trial.index and not trial.ended]
        done = [run.progress for run in runs if run.progress is not None]
        score = trial.value if trial.ended else _mean([run.score for run in runs])
        alerts: set[str] = set().union(*(run.alerts for run in runs))
        return (
            f"{trial.index}{' best' if trial is best else ''}",
            " ".join(map(_without_block, trial.overrides)) or "the recipe",
            trial.state,
            f"{sum(done) / len(self._plan.seeds):.0%}" if done else "",
            _format_number(_mean([run.mean_return for run in runs])),
            _format_number(score),
            _format_number(_mean([run.speed for run in runs])),
            ", ".join(sorted(alerts)),
        )


def _align(row: Sequence[str], rows: Sequence[Sequence[str]], style: str) -> StyledLine:
    """A row with its cells as wide as their columns; a style is for the whole head, else for the state alone."""
    line = []
    for place, (name, cell) in enumerate(zip(_COLUMNS, row, strict=True)):
        width = max(len(other[place]) for other in rows)
        last = name == _COLUMNS[-1]
        text = cell if last else f"{cell.ljust(width) if name in _LEFT_ALIGNED else cell.rjust(width)}  "
        line.append(Span(text, style if name == "state" or row is _COLUMNS else ""))
    return line


def _without_block(override: str) -> str:
    """`learning_rate=0.01` of `ppo.learning_rate=0.01`: a terminal is narrow."""
    key, _, value = override.partition("=")
    return f"{key.rpartition('.')[2]}={value}"


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _format_number(value: float | None) -> str:
    return "" if value is None else f"{value:,.5g}"
