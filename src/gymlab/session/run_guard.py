"""Guards around training: stop signals, the terminal, garbage collection and disk errors.

`guard_command` is entered once by a command that trains, `guard_run` once for each run in it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from gymlab.core.errors import RunError
from gymlab.session.startup_tuning import defer_collection, end_deferral

if TYPE_CHECKING:
    from gymlab.runs.paths import RunPaths
    from gymlab.runs.store import RunStore


@contextmanager
def guard_command(when: str = "before training began", *, gc_off: bool = False) -> Iterator[None]:
    """Around a command that trains: handle stop signals, restore the terminal, set the exit code.

    `when` completes the message after a signal, e.g. "SIGTERM before training began". `gc_off`: see `startup_tuning`.
    """
    from gymlab.session.signals import Interrupted, guard_process
    from gymlab.terminal.restore import TerminalSettings, restored_on_stop_signals

    terminal = TerminalSettings()
    if gc_off:
        defer_collection()
    try:
        with restored_on_stop_signals(terminal), guard_process(terminal.restore) as interrupts:
            yield
    except Interrupted:
        print(f"{interrupts.reason} {when}", file=sys.stderr, flush=True)
        raise
    finally:
        terminal.restore()
        if gc_off:
            end_deferral()


class RunGuard:
    """Owns what one run has opened: its folder, closed on every way out, and anything else with `at_exit`."""

    def __init__(self, paths: RunPaths | None = None) -> None:
        self.paths = paths  # of the run, once it has begun: then disk errors name its last checkpoint
        self.opened = ExitStack()

    def open_store(self, make: Callable[[], RunStore]) -> RunStore:
        """The store of the run, closed at the end, also when the process is ended by force."""
        from gymlab.session.signals import process_guard

        process = process_guard()
        if process is None:
            return self.opened.enter_context(make())
        with process.held():  # a signal in between would leave an orphaned folder
            store = self.opened.enter_context(make())
            self.opened.enter_context(process.cleanup(partial(_abandon, store)))
        return store

    def at_exit(self, close: Callable[[], None]) -> None:
        self.opened.callback(close)


@contextmanager
def guard_run(paths: RunPaths | None = None) -> Iterator[RunGuard]:
    """Around one run, from its preparation to its end: errors that the disk causes become DiskFault."""
    guard = RunGuard(paths)
    # Before the folder is closed, which writes the error's message to the status; and again, as that may fail too.
    with _translate_disk_errors(guard), guard.opened, _translate_disk_errors(guard):
        yield guard


@contextmanager
def _translate_disk_errors(guard: RunGuard) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # any: libraries wrap disk errors in their own; all others are raised again
        from gymlab.runs.disk_space import disk_fault

        fault = disk_fault(error, guard.paths)
        if fault is None:
            raise
        raise fault from error


def _abandon(store: RunStore, reason: str) -> None:
    if store.status.get("status") == "running":
        store.end("stopped", reason)
        with suppress(OSError, ValueError):  # no terminal any more
            # Past the live console, which would draw itself again below the restored terminal's cursor.
            print(f"{store.run_id}: {reason}; continue: gymlab resume {store.run_id}", file=sys.__stderr__, flush=True)
        return
    with suppress(RunError):  # an older run, not changed yet
        store.discard()
