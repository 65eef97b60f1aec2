"""What surrounds a command that trains: signals, the terminal, the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from gymlab.terminal.restore import TerminalSettings, restored_on_stop_signals


@contextmanager
def orderly(when: str = "before training began") -> Iterator[None]:
    """Around a command that trains: on every way out the terminal is restored and the exit code is right.

    `when` completes what is said where a signal ends it early.
    """
    from gymlab.session.signals import Interrupted, guard_process

    terminal = TerminalSettings()
    try:
        with restored_on_stop_signals(terminal), guard_process(terminal.restore) as interrupts:
            yield
    except Interrupted:
        typer.echo(f"{interrupts.reason} {when}", err=True)
        raise
    finally:
        terminal.restore()
