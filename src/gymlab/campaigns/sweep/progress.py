"""What is shown while a sweep runs: a table that keeps up in a terminal, a line per trial elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gymlab.campaigns.executors.protocol import RunAlerted, RunFailed, RunProgressed, RunReport, RunScored
from gymlab.campaigns.sweep.plan import Plan
from gymlab.campaigns.sweep.sweep_status import headline
from gymlab.campaigns.sweep.trial import Row, best_row

_FRAMES = 4  # a second
_STYLES = {"finished": "green", "pruned": "dim", "failed": "red", "running": "", "waiting": "dim"}


class Lines:
    """One line when a trial has ended."""

    def __init__(self, plan: Plan, *, quiet: bool) -> None:
        self._plan = plan
        self._quiet = quiet
        self._told: set[int] | None = None

    def rows(self, rows: list[Row]) -> None:
        ended = {row.index for row in rows if row.ended}
        if self._told is None:
            self.say(headline(self._plan, rows))
            self._told = ended
        for index in sorted(ended - self._told):
            row = rows[index]
            score = "-" if row.value is None else f"{row.value:.4g}"
            done = f"{len(ended)} of {self._plan.trials}"
            more = f" ({row.reason})" if row.reason else ""
            self.say(f"trial {index}: {row.state} {score}{more}, {' '.join(row.overrides) or 'the recipe'} · {done}")
        self._told = ended

    def report(self, trial: int, seed: int, report: RunReport) -> None:
        if isinstance(report, RunFailed):
            self.say(f"trial {trial}, seed {seed}: {report.message.splitlines()[0]}")

    def say(self, text: str) -> None:
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)


class Table:
    """The trials under way and the best so far, drawn anew a few times a second."""

    def __init__(self, plan: Plan, live: Any) -> None:
        self._plan = plan
        self._live = live
        self._drawn = 0.0
        self._rows: list[Row] = []
        self._seen: dict[tuple[int, int], dict[str, Any]] = {}

    def rows(self, rows: list[Row]) -> None:
        self._rows = rows
        self._draw(now=True)

    def report(self, trial: int, seed: int, report: RunReport) -> None:
        seen = self._seen.setdefault((trial, seed), {"alerts": set()})
        if isinstance(report, RunProgressed):
            seen |= {"progress": report.progress, "return": report.mean_return, "speed": report.steps_per_second}
        elif isinstance(report, RunScored):
            seen["score"] = report.score
        elif isinstance(report, RunAlerted):
            seen["alerts"].add(report.alert)
        self._draw()

    def say(self, text: str) -> None:
        self._live.console.print(text, markup=False, highlight=False)

    def _draw(self, *, now: bool = False) -> None:
        if now or time.monotonic() - self._drawn > 1 / _FRAMES:
            self._drawn = time.monotonic()
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Any:
        from rich.markup import escape
        from rich.table import Table as RichTable

        drawn = RichTable(title=escape(headline(self._plan, self._rows)), title_justify="left", box=None)
        for name in ("trial", "settings", "state", "done", "return", "score", "steps/s", "alerts"):
            drawn.add_column(name, justify="left" if name in ("settings", "state", "alerts") else "right")
        best = best_row(self._rows)
        ended = [row for row in self._rows if row.ended and row is not best][-6:]
        for row in [*([best] if best else []), *ended, *(row for row in self._rows if row.state == "running")]:
            self._line(drawn, row, best)
        return drawn

    def _line(self, drawn: Any, row: Row, best: Row | None) -> None:
        from rich.markup import escape

        seen = [found for (trial, _), found in self._seen.items() if trial == row.index and not row.ended]
        done = [found["progress"] for found in seen if "progress" in found]
        alerts = sorted(set().union(*(found["alerts"] for found in seen)))
        score = row.value if row.ended else _mean([found.get("score") for found in seen])
        drawn.add_row(
            f"{row.index}{' best' if row is best else ''}",
            escape(" ".join(map(_short, row.overrides)) or "the recipe"),
            f"[{style}]{row.state}[/]" if (style := _STYLES[row.state]) else row.state,
            f"{sum(done) / len(self._plan.seeds):.0%}" if done else "",
            _number(_mean([found.get("return") for found in seen])),
            _number(score),
            _number(_mean([found.get("speed") for found in seen])),
            ", ".join(alerts),
        )


def _short(override: str) -> str:
    """Without the key's block: a terminal is narrow."""
    key, _, value = override.partition("=")
    return f"{key.rpartition('.')[2]}={value}"


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.5g}"


@contextmanager
def shown(plan: Plan, output: str) -> Iterator[Lines | Table]:
    """The table where somebody sits at a terminal; what is asked for as JSON stays alone on stdout."""
    if output != "people" or not sys.stderr.isatty():
        yield Lines(plan, quiet=output == "quiet")
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield Table(plan, live)
