"""A run outlives whoever was watching it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from gymlab.features.console.base import Console
from gymlab.training.events import Control, Event

log = logging.getLogger(__name__)


class Steady(Console):
    """Shows what another console does; when its terminal or pipe is gone the run goes on in silence."""

    def __init__(self, shown: Console) -> None:
        super().__init__(shown.notes)
        self._shown = shown

    def announce(self, parts: Any, notes: list[str]) -> None:
        with self._heard():
            self._shown.announce(parts, notes)

    def __call__(self, event: Event, control: Control) -> None:
        with self._heard():
            self._shown(event, control)

    def __exit__(self, *error: Any) -> None:
        with self._heard():
            self._shown.__exit__(*error)

    @contextmanager
    def _heard(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _silence()
            log.warning("the output is gone (%s): the run goes on in silence", error)


def _silence() -> None:
    with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
        out = sys.stdout.fileno()
        err = sys.stderr.fileno()
        same = os.path.samestat(os.fstat(out), os.fstat(err))
        for stream in (out, err) if same else (out,):
            os.dup2(nowhere.fileno(), stream)
