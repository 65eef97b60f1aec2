"""What a run says while it runs: a live table in a terminal, plain lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import sys

from gymlab.features.console.base import Console, first_line
from gymlab.features.console.closed_output import Steady
from gymlab.features.console.lines import JsonLines, Lines
from gymlab.features.console.live import Live
from gymlab.features.console.view import snapshot
from gymlab.terminal.screen import understands_escapes

__all__ = ["Console", "first_line", "make_console", "snapshot"]


def make_console(mode: str, notes: list[str]) -> Console:
    """The console for an output mode: people, quiet, json or jsonl."""
    return Steady(_console(mode, notes))


def _console(mode: str, notes: list[str]) -> Console:
    if mode == "jsonl":
        return JsonLines(notes)
    if mode != "people":
        return Console(notes)
    return Live(notes) if understands_escapes(sys.stdout) else Lines(notes)
