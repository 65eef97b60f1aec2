"""Consoles that print line by line: plain lines for people, JSON lines for programs."""

from __future__ import annotations

import json
import time

from gymlab.features.console.base import RunConsole, filming_line
from gymlab.features.console.view import RunView, alert_line, evaluation_line
from gymlab.terminal.screen import plain_text
from gymlab.training.events import (
    AlertCleared,
    AlertRaised,
    Checkpointed,
    Control,
    Ended,
    Evaluated,
    Event,
    Recorded,
    Started,
    Updated,
)

LINE_SECONDS = 5.0  # between plain lines


class PlainConsole(RunConsole):
    """One line every few seconds, one per evaluation and one per alert: for logs and pipes."""

    def __init__(self) -> None:
        self.view = RunView()
        self._printed = time.monotonic()

    def announce(self, header: str, notes: list[str]) -> None:
        print(header, flush=True)
        for note in notes:
            print(f"note: {note}", flush=True)

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            self.view.update(event)
            if time.monotonic() - self._printed >= LINE_SECONDS:
                self._print(self.view.line())
        elif isinstance(event, Evaluated) and event.kind != "final":
            self._print(evaluation_line(event))
        elif isinstance(event, AlertRaised):
            self._print(plain_text(alert_line(event, event.alert)))

    def filming(self, left: int) -> None:
        self._print(filming_line(left))

    def _print(self, text: str) -> None:
        self._printed = time.monotonic()
        print(text, flush=True)


class JsonLinesConsole(RunConsole):
    """Every event that matters to a program, one JSON object a line."""

    def announce(self, header: str, notes: list[str]) -> None:
        self._write("ready", line=header, notes=notes)

    def filming(self, left: int) -> None:
        self._write("filming", left=left)

    def __call__(self, event: Event, control: Control) -> None:
        clock = event.clock._asdict()
        if isinstance(event, Started):
            self._write("started", **clock, resumed=event.resumed)
        elif isinstance(event, Recorded):
            for row in event.rows:
                self._write("updated", **row.clock._asdict(), metrics=_finite(dict(row.metrics)))
        elif isinstance(event, Evaluated):
            source = event.evaluation.source
            self._write("evaluated", **clock, kind=event.kind, source=source, **event.evaluation.as_json())
        elif isinstance(event, Checkpointed):
            self._write("checkpoint", **clock, checkpoint=event.path.name, kinds=list(event.kinds))
        elif isinstance(event, AlertRaised):
            self._write("alert", **clock, alert=event.alert.as_json())
        elif isinstance(event, AlertCleared):
            self._write("alert cleared", **clock, alert=event.alert.as_json())
        elif isinstance(event, Ended):
            self._write("ended", **clock, reason=event.reason, status=event.status)

    def _write(self, event: str, **fields: object) -> None:
        print(json.dumps({"event": event, **fields}), flush=True)


def _finite(row: dict[str, float]) -> dict[str, float | None]:
    return {name: value if abs(value) < float("inf") else None for name, value in row.items()}
