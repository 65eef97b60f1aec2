"""What is shown of many runs at once: a table with a line for each in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from gymlab.core.format import format_count, format_elapsed
from gymlab.features.console.lines import LINE_SECONDS
from gymlab.features.console.view import SEVERITY_STYLES
from gymlab.terminal.ansi import Line, Span
from gymlab.terminal.screen import Screen, understands_escapes

FRAME_SECONDS = 0.2
_BAR = 12
_STYLES = {"finished": "green", "failed": "bold red", "waiting": "dim", "not begun": "dim", "stopped": "yellow"}


@dataclass
class Seat:
    """One run among many, as far as it is shown."""

    label: str
    status: str = "waiting"
    progress: float = 0.0
    env_steps: int = 0
    mean_return: float | None = None
    score: float | None = None  # of the last evaluation
    speed: float | None = None
    alerts: dict[str, str] = field(default_factory=dict)  # id -> severity

    def line(self, width: int) -> Line:
        done = round(self.progress * _BAR)
        worst = max(self.alerts.values(), key=list(SEVERITY_STYLES).index, default="")
        numbers = (
            f"{format_count(self.env_steps, brief=True):>8} {_number(self.mean_return):>9} {_number(self.score):>9} "
        )
        return [
            Span(f"{self.label:{width}}  "),
            Span(f"{self.status:9} ", _STYLES.get(self.status, "")),
            Span("█" * done + "·" * (_BAR - done), "blue"),
            Span(f" {self.progress:4.0%} {numbers}{_rate(self.speed):>8}"),
            Span(f"  {', '.join(self.alerts)}", SEVERITY_STYLES.get(worst, "")),
        ]


class Board:
    """The quiet base: it keeps the table and shows nothing."""

    def __init__(self, title: str, labels: Sequence[str]) -> None:
        self.title = title
        self.seats = [Seat(label) for label in labels]
        self.began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back."""

    def say(self, text: str) -> None:
        """A line that is shown once."""

    def changed(self) -> None:
        """The seats are not what they were."""

    def frame(self, rows: int = 1000) -> list[Line]:
        """The table; where it is longer than so many rows, of those that train."""
        shown = self.seats
        if len(shown) + 3 > rows:
            shown = [seat for seat in self.seats if seat.status == "running"][: max(rows - 3, 0)]
        width = max(len(seat.label) for seat in self.seats)
        speed = sum(seat.speed or 0.0 for seat in self.seats if seat.status == "running")
        counts = Counter(seat.status for seat in self.seats)
        told = ", ".join(f"{count} {status}" for status, count in counts.items())
        head = f"{'':{width}}  {'status':9} {'progress':{_BAR + 5}} {'env_steps':>8} {'return':>8} {'evaluated':>9}"
        return [
            [Span(f"{head} {'steps/s':>8}", "dim")],
            *(seat.line(width) for seat in shown),
            [Span(f"{format_elapsed(time.monotonic() - self.began)}  {told}  {_rate(speed)} env_steps/s", "bold")],
        ]


class LiveBoard(Board):
    """Redrawn in place a few times a second."""

    def __init__(self, title: str, labels: Sequence[str]) -> None:
        super().__init__(title, labels)
        self._screen = Screen(sys.stdout)
        self._next = 0.0

    def __enter__(self) -> Self:
        self._screen.start()
        self._screen.print([Span(self.title, "bold")])
        self.changed()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._screen.stop()

    def say(self, text: str) -> None:
        self._screen.print([Span(text, "dim")])

    def changed(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + FRAME_SECONDS
            self._screen.draw(self.frame(self._screen.size()[1]))


class PlainBoard(Board):
    """One line every few seconds and one per member that ends: for logs and pipes."""

    def __enter__(self) -> Self:
        print(self.title, flush=True)
        self._printed = time.monotonic()
        return self

    def say(self, text: str) -> None:
        self._printed = time.monotonic()
        print(text, flush=True)

    def changed(self) -> None:
        if time.monotonic() - self._printed >= LINE_SECONDS:
            *_, totals = self.frame()
            steps = sum(seat.env_steps for seat in self.seats)
            self.say(f"{format_count(steps, brief=True)} env_steps  {totals[0].text}")


def make_board(mode: str, title: str, labels: Sequence[str]) -> Board:
    """The board for an output mode; programs (quiet, json, jsonl) get none."""
    if mode != "people":
        return Board(title, labels)
    return LiveBoard(title, labels) if understands_escapes(sys.stdout) else PlainBoard(title, labels)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _rate(value: float | None) -> str:
    return "-" if not value else format_count(float(f"{value:.3g}"), brief=True)
