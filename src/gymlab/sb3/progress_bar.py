"""The bar of `learn(progress_bar=True)`: rich's in a terminal, a display that is updated in place in a notebook."""

from __future__ import annotations

import time
from typing import Protocol

from gymlab.core.format import format_elapsed

WIDTH = 40
REFRESH_SECONDS = 0.1


class ProgressBar(Protocol):
    """A bar that is drawn from its making until `stop`."""

    def update(self, completed: int) -> None: ...
    def stop(self) -> None: ...


def make_progress_bar(total: int, completed: int) -> ProgressBar:
    """The bar for where this process prints."""
    from rich.console import Console

    return NotebookBar(total, completed) if Console().is_jupyter else TerminalBar(total, completed)


class TerminalBar:
    """Rich's bar."""

    def __init__(self, total: int, completed: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

        self._progress = Progress(BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self._task = self._progress.add_task("learn", total=total, completed=completed)
        self._progress.start()

    def update(self, completed: int) -> None:
        self._progress.update(self._task, completed=completed)

    def stop(self) -> None:
        self._progress.stop()


class NotebookBar:
    """One line of text in the cell's output.

    Rich needs ipywidgets there, and what is printed while its bar is shown recurses until Python gives up: its
    stand-in for stdout prints by a display, and a display flushes stdout.
    """

    def __init__(self, total: int, completed: int) -> None:
        from IPython.display import display

        self._total = total
        self._completed = completed
        self._first = completed
        self._began = time.monotonic()
        self._drawn = self._began
        self._handle = display({"text/plain": self._line()}, raw=True, display_id=True)

    def update(self, completed: int) -> None:
        self._completed = completed
        if time.monotonic() - self._drawn >= REFRESH_SECONDS:
            self._draw()

    def stop(self) -> None:
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        self._handle.update({"text/plain": self._line()}, raw=True)

    def _line(self) -> str:
        full = round(WIDTH * min(1.0, self._completed / max(self._total, 1)))
        seconds = time.monotonic() - self._began
        done = self._completed - self._first
        left = format_elapsed(seconds * (self._total - self._completed) / done) if done > 0 else "-:--"
        bar = "━" * full + "╌" * (WIDTH - full)
        return f"{bar} {self._completed}/{self._total} {format_elapsed(seconds)} {left}"
