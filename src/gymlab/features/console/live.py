"""The live view of a terminal: a table that is redrawn in place, and keys that change what it shows."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

from gymlab.core.format import format_count, format_elapsed
from gymlab.features.console.base import Console, first_line
from gymlab.features.console.layout import Choice, frame, groups
from gymlab.features.console.view import View, alert_line, evaluation_line
from gymlab.terminal.ansi import Line, Span
from gymlab.terminal.screen import Screen
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

FRAME_SECONDS = 0.1  # at least, between two drawings
SHARE = 0.0075  # of the time, at most, goes into drawing
SLOWEST_SECONDS = 5.0
MESSAGE_SECONDS = 3.0
_MESSAGES = {"p": "", "e": "evaluation asked for", "c": "checkpoint asked for", "s": "stopping ..."}


class Live(Console):
    """Draws between events, in the thread that trains: cheap, and never in the middle of something."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__(notes)
        self.view = View()
        self.choice = Choice(message="compiling ...")
        self._screen = Screen(sys.stdout)
        self._next = 0.0
        self._said = 0.0
        self._behind = False
        self._asked = False  # for a checkpoint

    def announce(self, parts: Any, notes: list[str]) -> None:
        told: list[Line] = [[Span(first_line(parts), "bold")]]
        self._screen.start()
        self._screen.print(*told, *([Span(f"note: {note}", "dim")] for note in [*self.notes, *notes]))
        self._draw()

    def __call__(self, event: Event, control: Control) -> None:
        if isinstance(event, Updated):
            if time.monotonic() >= self._said + MESSAGE_SECONDS:
                self.choice = replace(self.choice, message="")
            self.view.update(event)
            if self._behind:  # the update before this one had no row: not every update has
                self._draw_at_times(control)
            self._behind = True
        elif isinstance(event, Recorded):
            self.view.record(event)
            self._behind = False
            self._draw_at_times(control)
        elif isinstance(event, Measured):
            self.view.measure(event)
        elif isinstance(event, KeyPressed):
            self._pressed(event.key)
        elif isinstance(event, Paused):
            self.choice = replace(
                self.choice, message=f"paused for {format_elapsed(event.seconds)}: p goes on, s stops"
            )
            self._next = self._next if event.seconds else 0.0
            self._draw_at_times(control)
        elif isinstance(event, Stopping):
            # A signal's own words stand below the frame.
            self._screen.stop(2 if event.reason.startswith("interrupted by") and sys.stderr.isatty() else 0)
        elif isinstance(event, Ended):
            self._screen.stop()
        else:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        """What is printed once, above the table."""
        if isinstance(event, AlertRaised):
            self.view.alerts[event.alert.id] = event.alert
            self._screen.print(alert_line(event, event.alert))
        elif isinstance(event, AlertCleared):
            self.view.alerts.pop(event.alert.id, None)
        elif isinstance(event, Evaluated) and event.kind != "final":
            self._screen.print([Span(evaluation_line(event))])
        elif isinstance(event, Checkpointed) and self._asked:
            self._asked = False
            at = f"at {format_count(event.clock.env_steps, brief=True)} env_steps"
            self._screen.print([Span(f"checkpoint {event.path.name} written {at}")])

    def __exit__(self, *_: object) -> None:
        self._screen.stop()

    def _pressed(self, key: str) -> None:
        choice = self.choice
        present = groups(self.view.values)
        if key == "g":
            places = ["", *present, "-"]
            self.choice = replace(choice, only=places[(places.index(choice.only) + 1) % len(places)])
        elif key.isdigit() and 0 < int(key) <= len(present):
            self.choice = replace(choice, only="", hidden=choice.hidden ^ {present[int(key) - 1]})
        elif key == "a":
            self.choice = replace(choice, advice=not choice.advice)
        elif key == "?":
            self.choice = replace(choice, help=not choice.help)
        elif key == "\x0c":
            self._screen.clear()
        elif key == "continued":
            self._screen.forget()
        elif key in _MESSAGES:
            self.choice = replace(choice, message=_MESSAGES[key])
            self._said = time.monotonic()
        self._asked = self._asked or key == "c"
        self._draw()

    def _draw_at_times(self, control: Control) -> None:
        if time.monotonic() >= self._next and not control.interrupted:
            self._draw()

    def _draw(self) -> None:
        began = time.monotonic()
        self.view.draw()
        self._screen.draw(frame(self.view, self.choice, *self._screen.size()))
        now = time.monotonic()
        self._next = now + min(max(FRAME_SECONDS, (now - began) / SHARE), SLOWEST_SECONDS)
