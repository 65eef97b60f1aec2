"""ProgressTable: the live table of many runs, redrawn in place on a terminal, with messages printed above it.

Output that is not a terminal gets only the messages and a summary now and then. It draws on a `Screen`, which says
why that is not `rich.Live`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, TextIO

from gymlab.core.format import format_count, format_elapsed
from gymlab.terminal.screen import SEVERITY_STYLES, Screen, Span, StyledLine, supports_ansi

FRAME_SECONDS = 0.2
SUMMARY_SECONDS = 5.0
_BAR_WIDTH = 12
STATUS_STYLES = {
    "finished": "green",
    "failed": "bold red",
    "waiting": "dim",
    "not begun": "dim",
    "pruned": "dim",
    "stopped": "yellow",
}

TableMode = Literal["live", "plain", "silent"]


@dataclass
class RunRow:
    """One run's line of the table."""

    label: str
    status: str = "waiting"
    progress: float = 0.0
    env_steps: int = 0
    mean_return: float | None = None
    score: float | None = None  # of the last evaluation
    speed: float | None = None  # env_steps per second
    alerts: dict[str, str] = field(default_factory=dict)  # id -> severity

    def line(self, width: int) -> StyledLine:
        done = round(self.progress * _BAR_WIDTH)
        worst = max(self.alerts.values(), key=list(SEVERITY_STYLES).index, default="")
        steps = format_count(self.env_steps, brief=True)
        numbers = f"{steps:>8} {_format_number(self.mean_return):>9} {_format_number(self.score):>9} "
        return [
            Span(f"{self.label:{width}}  "),
            Span(f"{self.status:9} ", STATUS_STYLES.get(self.status, "")),
            Span("█" * done + "·" * (_BAR_WIDTH - done), "blue"),
            Span(f" {self.progress:4.0%} {numbers}{_format_rate(self.speed):>8}"),
            Span(f"  {', '.join(self.alerts)}", SEVERITY_STYLES.get(worst, "")),
        ]


def run_lines(rows: Sequence[RunRow], footer: str, height: int) -> list[StyledLine]:
    """A header, a line per run and a footer; if that exceeds `height` lines, only the running runs."""
    visible = list(rows)
    if len(visible) + 3 > height:
        visible = [row for row in rows if row.status == "running"][: max(height - 3, 0)]
    width = max((len(row.label) for row in rows), default=0)
    numbers = f"{'env_steps':>8} {'return':>8} {'evaluated':>9} {'steps/s':>8}"
    header = f"{'':{width}}  {'status':9} {'progress':{_BAR_WIDTH + 5}} {numbers}"
    return [[Span(header, "dim")], *(row.line(width) for row in visible), [Span(footer, "bold")]]


def format_totals(rows: Sequence[RunRow], seconds: float) -> str:
    """Time, how many runs have which status, and their speed together."""
    speed = sum(row.speed or 0.0 for row in rows if row.status == "running")
    counts = Counter(row.status for row in rows)
    statuses = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"{format_elapsed(seconds)}  {statuses}  {_format_rate(speed)} env_steps/s"


def table_mode(output: str, stream: TextIO) -> TableMode:
    """`live` for people at a terminal, `plain` for people elsewhere, `silent` for programs (quiet, json, jsonl)."""
    if output != "people":
        return "silent"
    return "live" if supports_ansi(stream) else "plain"


class ProgressTable:
    """Draws what `lines(height)` returns, between `__enter__` and `__exit__`.

    Without a terminal `summary()` is printed instead, SUMMARY_SECONDS after whatever was printed last.
    """

    def __init__(
        self,
        stream: TextIO,
        mode: TableMode,
        lines: Callable[[int], Sequence[StyledLine]],
        summary: Callable[[], str] | None = None,
    ) -> None:
        self.mode = mode
        self._stream = stream
        self._lines = lines
        self._summary = summary
        self._screen = Screen(stream)
        self._next_draw = 0.0
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        if self.mode == "live":
            self._screen.start()
            self.update(now=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the table; may be called more than once."""
        if self.mode == "live":
            self._screen.stop()

    def print(self, text: str, style: str = "") -> None:
        """Print a message above the table; styles are for terminals only."""
        if self.mode == "live":
            self._screen.print(*([Span(line, style)] for line in text.split("\n")))
        elif self.mode == "plain":
            self._printed = time.monotonic()
            print(text, file=self._stream, flush=True)

    def update(self, *, now: bool = False) -> None:
        """Redraw, at most every FRAME_SECONDS unless `now`."""
        clock = time.monotonic()
        if self.mode == "live" and (now or clock >= self._next_draw):
            self._next_draw = clock + FRAME_SECONDS
            self._screen.draw(self._lines(self._screen.size()[1]))
        elif self.mode == "plain" and self._summary is not None and clock - self._printed >= SUMMARY_SECONDS:
            self.print(self._summary())


def _format_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _format_rate(value: float | None) -> str:
    return "-" if not value else format_count(float(f"{value:.3g}"), brief=True)
