"""LiveConsole: a table of metrics that is redrawn in place in a terminal, with keys that change what it shows."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from gymlab.core.format import format_count, format_elapsed
from gymlab.features.console.base import RunConsole, filming_line
from gymlab.features.console.layout import TableSelection, frame, groups
from gymlab.features.console.view import RunView, alert_line, evaluation_line
from gymlab.terminal.keyboard import CONTINUED
from gymlab.terminal.screen import Screen, Span
from gymlab.training.events import (
    AlertCleared,
    AlertRaised,
    Checkpointed,
    Control,
    Ended,
    Evaluated,
    Event,
    KeyPressed,
    Measured,
    Paused,
    Recorded,
    Stopping,
    Updated,
)

FRAME_SECONDS = 0.1  # at least, between two frames
DRAWING_SHARE = 0.0075  # of the time, at most
SLOWEST_SECONDS = 5.0
MESSAGE_SECONDS = 3.0
_MESSAGES = {"p": "", "e": "evaluation requested", "c": "checkpoint requested", "s": "stopping ..."}


class LiveConsole(RunConsole):
    """Draws between events, in the training thread, with a bounded share of its time."""

    def __init__(self) -> None:
        self.view = RunView()
        self.selection = TableSelection(message="compiling ...")
        self._screen = Screen(sys.stdout)
        self._next = 0.0
        self._message_at = 0.0
        self._unrecorded = False
        self._checkpoint_requested = False

    def announce(self, header: str, notes: list[str]) -> None:
        self._screen.start()
        self._screen.print([Span(header, "bold")], *([Span(f"note: {note}", "dim")] for note in notes))
        self._draw()

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            if time.monotonic() >= self._message_at + MESSAGE_SECONDS:
                self.selection = replace(self.selection, message="")
            self.view.update(event)
            if self._unrecorded:  # the previous update had no row: not every update has one
                self._draw_if_due(control)
            self._unrecorded = True
        elif isinstance(event, Recorded):
            self.view.record(event)
            self._unrecorded = False
            self._draw_if_due(control)
        elif isinstance(event, Measured):
            self.view.measure(event)
        elif isinstance(event, KeyPressed):
            self._pressed(event.key)
        elif isinstance(event, Paused):
            message = f"paused for {format_elapsed(event.seconds)}: p continues, s stops"
            self.selection = replace(self.selection, message=message)
            self._next = self._next if event.seconds else 0.0
            self._draw_if_due(control)
        elif isinstance(event, Stopping):
            # The signal handler has written its message below the frame.
            self._screen.stop(2 if event.reason.startswith("interrupted by") and sys.stderr.isatty() else 0)
        elif isinstance(event, Ended):
            self._screen.stop()
        else:
            self._print_once(event)

    def _print_once(self, event: Event) -> None:
        """Print an event above the table."""
        if isinstance(event, AlertRaised):
            self.view.alerts[event.alert.id] = event.alert
            self._screen.print(alert_line(event, event.alert))
        elif isinstance(event, AlertCleared):
            self.view.alerts.pop(event.alert.id, None)
        elif isinstance(event, Evaluated) and event.kind != "final":
            self._screen.print([Span(evaluation_line(event))])
        elif isinstance(event, Checkpointed) and self._checkpoint_requested:
            self._checkpoint_requested = False
            at = f"at {format_count(event.clock.env_steps, brief=True)} env_steps"
            self._screen.print([Span(f"checkpoint {event.path.name} written {at}")])

    def filming(self, left: int) -> None:
        print(filming_line(left), flush=True)

    def __exit__(self, *_: object) -> None:
        self._screen.stop()

    def _pressed(self, key: str) -> None:
        selection = self.selection
        present = groups(self.view.values)
        if key == "g":
            places = ["", *present, "-"]
            self.selection = replace(selection, only=places[(places.index(selection.only) + 1) % len(places)])
        elif key.isdigit() and 0 < int(key) <= len(present):
            self.selection = replace(selection, only="", hidden=selection.hidden ^ {present[int(key) - 1]})
        elif key == "a":
            self.selection = replace(selection, advice=not selection.advice)
        elif key == "?":
            self.selection = replace(selection, help=not selection.help)
        elif key == "\x0c":
            self._screen.clear()
        elif key == CONTINUED:
            self._screen.forget()
        elif key in _MESSAGES:
            self.selection = replace(selection, message=_MESSAGES[key])
            self._message_at = time.monotonic()
        self._checkpoint_requested = self._checkpoint_requested or key == "c"
        self._draw()

    def _draw_if_due(self, control: Control) -> None:
        if time.monotonic() >= self._next and not control.interrupted:
            self._draw()

    def _draw(self) -> None:
        began = time.monotonic()
        self.view.draw()
        self._screen.draw(frame(self.view, self.selection, *self._screen.size()))
        now = time.monotonic()
        self._next = now + min(max(FRAME_SECONDS, (now - began) / DRAWING_SHARE), SLOWEST_SECONDS)
