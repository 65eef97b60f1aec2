"""Prints a run's progress: a live table in a terminal, plain lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import sys

from gymlab.features.console.base import GuardedConsole, RunConsole
from gymlab.features.console.lines import JsonLinesConsole, PlainConsole
from gymlab.features.console.live import LiveConsole
from gymlab.features.console.view import format_metrics
from gymlab.terminal.screen import supports_ansi

__all__ = ["RunConsole", "format_metrics", "make_console"]


def make_console(output: str) -> RunConsole:
    """The console for an output mode: people, quiet, json or jsonl."""
    return GuardedConsole(_make_console(output))


def _make_console(output: str) -> RunConsole:
    if output == "jsonl":
        return JsonLinesConsole()
    if output != "people":
        return RunConsole()
    return LiveConsole() if supports_ansi(sys.stdout) else PlainConsole()
