"""Process setup around commands: SIGINT while modules load, garbage collection while a run starts, terminal restore.

`gymlab.__main__` imports this module first, so it imports nothing but small standard modules at the top.
"""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Announce = Callable[..., None]


def default_sigint() -> None:
    """SIGINT ends the process at once, without a traceback of the imports under way. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def restore_sigint() -> None:
    """SIGINT raises KeyboardInterrupt again, if `default_sigint` changed that."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def gc_off_during_start() -> Iterator[Callable[[Announce], Announce]]:
    """Disable garbage collection while a run starts: nearly all objects made then live as long as the run.

    Yields a wrapper for the function that announces the run: the call freezes those objects and enables collection.
    """

    def enable_at(announce: Announce) -> Announce:
        def announced(*arguments: object) -> None:
            gc.freeze()
            gc.enable()
            announce(*arguments)

        return announced

    gc.disable()
    try:
        yield enable_at
    finally:
        gc.enable()
        gc.unfreeze()


@contextmanager
def run_guard(when: str = "before training began") -> Iterator[None]:
    """Around a command that trains: handle stop signals, restore the terminal, set the exit code.

    `when` completes the message after a signal, e.g. "SIGTERM before training began".
    """
    import typer

    from gymlab.session.signals import Interrupted, guard_process
    from gymlab.terminal.restore import TerminalSettings, restored_on_stop_signals

    terminal = TerminalSettings()
    try:
        with restored_on_stop_signals(terminal), guard_process(terminal.restore) as interrupts:
            yield
    except Interrupted:
        typer.echo(f"{interrupts.reason} {when}", err=True)
        raise
    finally:
        terminal.restore()
