"""RunConsole: base class of what prints a run's progress, and the guard against closed output."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

from gymlab.training.events import Control, Event, Feature

log = logging.getLogger("gymlab.features.console")


class RunConsole(Feature):
    """The base class, which prints nothing: the console of quiet output."""

    name = "console"

    def announce(self, header: str, notes: list[str]) -> None:
        """Called once, before training: the line that describes the run, and notes on it."""

    def filming(self, left: int) -> None:
        """Called after training while it waits for films, whenever the number of films not made yet changes."""

    def __enter__(self) -> RunConsole:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the terminal."""


class GuardedConsole(RunConsole):
    """Keeps training when the terminal or pipe closes: after an OSError stdout goes to /dev/null."""

    def __init__(self, inner: RunConsole) -> None:
        self._inner = inner

    def announce(self, header: str, notes: list[str]) -> None:
        with self._ignoring_closed_output():
            self._inner.announce(header, notes)

    def filming(self, left: int) -> None:
        with self._ignoring_closed_output():
            self._inner.filming(left)

    def __call__(self, event: Event, control: Control) -> None:
        with self._ignoring_closed_output():
            self._inner(event, control)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._ignoring_closed_output():
            self._inner.__exit__(kind, error, trace)

    @contextmanager
    def _ignoring_closed_output(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _redirect_to_devnull()
            log.warning("output is closed (%s): training continues without it", error)


def _redirect_to_devnull() -> None:
    with suppress(OSError, ValueError), open(os.devnull, "wb") as devnull:
        out = sys.stdout.fileno()
        err = sys.stderr.fileno()
        same = os.path.samestat(os.fstat(out), os.fstat(err))
        for stream in (out, err) if same else (out,):
            os.dup2(devnull.fileno(), stream)


def filming_line(left: int) -> str:
    return f"waiting for {left} {'film' if left == 1 else 'films'} ..."
