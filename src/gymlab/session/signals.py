"""Signals end a run cleanly: the first one after the current update and in bounded time, the second one at once.

Python runs handlers in the main thread between two bytecodes, so not while JAX compiles. In a process that is ours to
end (`guard_process`), a thread that reads the wakeup file descriptor enforces both time limits.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType

from gymlab.core.errors import UserError

HANDLED = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
GRACE_SECONDS = 8.0  # for a clean end; then the process ends without one
CLEANUP_SECONDS = 1.5  # for the cleanups of a forced exit: within ten seconds in all
HURRIED_SECONDS = 0.5  # the same after a second signal
SAME_SECONDS = 0.1  # `timeout` and process managers send one signal twice
_END = 0  # no signals have these numbers
_RESEND = 255
_RESEND_SECONDS = 0.01
_COMPILED = ("numpy", "ml_dtypes", "jaxlib", "jax", "pydantic_core", "safetensors")

_guards: list[Interrupts] = []  # signals belong to the process; at most one is active


class Interrupted(SystemExit):
    """A signal came before training began. Exits with the signal's code."""

    at_once = True  # exit without interpreter shutdown, which crashes while JAX compiles


class Interrupts:
    """The signal that was received, if any, and how to react to it now."""

    def __init__(self, *, ours: bool) -> None:
        self.received: int | None = None
        self._ours = ours  # whether this process is ours to end
        self._interrupt: Callable[[str], None] | None = None  # while a run can be ended cleanly
        self._holds = 0
        self._holds_lock = threading.Lock()
        self._cleanups: list[Callable[[str], None]] = []

    @property
    def exit_code(self) -> int:
        """130 after SIGINT; 143 after SIGTERM, a closed terminal, or another stop request."""
        return 130 if self.received == signal.SIGINT else 143

    @property
    def reason(self) -> str:
        return f"interrupted by {signal.Signals(self.received or signal.SIGTERM).name}"

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
            self.act()
        elif not self._ours:
            raise KeyboardInterrupt

    def act(self) -> None:
        if self._interrupt is not None:
            self._interrupt(self.reason)
        elif not self._holds:
            if self._ours and _half_imported():
                with suppress(OSError, ValueError, AttributeError):
                    os.write(sys.stderr.fileno(), f"{self.reason} before training began\n".encode())
                os._exit(self.exit_code)
            raise Interrupted(self.exit_code)

    @contextmanager
    def persistent(self, resend: Callable[[], None]) -> Iterator[None]:
        """Call `resend` if `Interrupted` was raised in a finaliser or a callback, where Python ignores it."""
        before = sys.unraisablehook

        def hook(args: sys.UnraisableHookArgs) -> None:
            if isinstance(args.exc_value, Interrupted):
                self.received = None
                resend()
            else:
                before(args)

        sys.unraisablehook = hook
        try:
            yield
        finally:
            sys.unraisablehook = before

    @contextmanager
    def ending_by(self, interrupt: Callable[[str], None]) -> Iterator[None]:
        self._interrupt = interrupt
        if self.received is not None:
            interrupt(self.reason)
        try:
            yield
        finally:
            self._interrupt = lambda _: None  # what remains is short

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._holds_lock:  # vmapped runs start in threads
            self._holds += 1
        try:
            yield
        finally:
            with self._holds_lock:
                self._holds -= 1
        if self.received is not None:
            self.act()

    @contextmanager
    def cleanup(self, callback: Callable[[str], None]) -> Iterator[None]:
        """Within, `callback(reason)` is called when the process is ended by force."""
        self._cleanups.append(callback)
        try:
            yield
        finally:
            self._cleanups.remove(callback)

    def clean_up(self, reason: str) -> None:
        for callback in reversed(self._cleanups):
            with suppress(Exception):  # whatever fails, the process ends and the other callbacks are called
                callback(reason)


class _Watcher(threading.Thread):
    """Counts signals as they arrive, also while the main thread compiles, and ends the process in time."""

    def __init__(self, interrupts: Interrupts, restore: Callable[[], None], grace: float) -> None:
        super().__init__(name="gymlab-signals", daemon=True)
        self._interrupts = interrupts
        self._restore = restore
        self._grace = grace
        self._inbox, self.outbox = socket.socketpair()
        self.outbox.setblocking(False)

    def run(self) -> None:
        first = 0
        last = 0.0
        resent = 0
        while True:
            left = None if not first else max(0.0, last + self._grace - time.monotonic())
            if not select.select([self._inbox], [], [], left)[0]:
                how = f"with its last checkpoint: a clean end would take longer than {self._grace:g} s"
                self._end(first, how, CLEANUP_SECONDS)
            for number in self._inbox.recv(64):
                if number == _END:
                    return
                if number == _RESEND:
                    time.sleep(_RESEND_SECONDS)
                    resent += 1
                    _signal_main_thread(first)
                elif number not in HANDLED:
                    continue
                elif resent:
                    resent -= 1
                elif not first:
                    first = number
                    last = time.monotonic()
                    _print("stopping after this update; once more ends it at once")
                elif time.monotonic() - last > SAME_SECONDS:
                    self._end(first, "with its last checkpoint: the second signal ends it at once", HURRIED_SECONDS)

    def resend(self) -> None:
        """Send the first signal to the main thread again, as it was lost."""
        self.outbox.send(bytes([_RESEND]))

    def stop(self) -> None:
        self.outbox.setblocking(True)
        self.outbox.send(bytes([_END]))
        self.join()
        self._inbox.close()
        self.outbox.close()

    def _end(self, number: int, how: str, seconds: float) -> None:
        self._interrupts.received = number
        reason = f"{self._interrupts.reason}, {how}"

        def clean_up() -> None:
            self._restore()
            self._interrupts.clean_up(reason)

        thread = threading.Thread(target=clean_up, daemon=True)  # a disk or a terminal that hangs must not block us
        thread.start()
        thread.join(seconds)
        os._exit(self._interrupts.exit_code)


def _half_imported() -> bool:
    """Whether a C extension is being imported: an exception during its initialisation causes a segmentation fault."""
    specs = [getattr(sys.modules.get(name), "__spec__", None) for name in _COMPILED]
    return any(getattr(spec, "_initializing", False) for spec in specs)


def _signal_main_thread(number: int) -> None:
    if sys.platform == "win32":
        _thread.interrupt_main(number)
    else:  # which also interrupts a system call
        signal.pthread_kill(threading.main_thread().ident or 0, number)


def _print(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), f"\r\n{text}\r\n".encode())


@contextmanager
def guard_process(restore: Callable[[], None] = lambda: None) -> Iterator[Interrupts]:
    """Within, signals end this process: before training by raising `Interrupted`, then as `watch_signals` says.

    `$GYMLAB_GRACE` sets the seconds a clean end may take; after that `restore` is called to reset the terminal.
    """
    interrupts = Interrupts(ours=True)
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    watcher = _Watcher(interrupts, restore, _grace())
    watcher.start()
    wakeup = signal.set_wakeup_fd(watcher.outbox.fileno(), warn_on_full_buffer=False)
    _guards.append(interrupts)
    try:
        with _handled(interrupts), interrupts.persistent(watcher.resend):
            yield interrupts
    finally:
        _guards.remove(interrupts)
        signal.set_wakeup_fd(wakeup)
        watcher.stop()


@contextmanager
def watch_signals(interrupt: Callable[[str], None]) -> Iterator[Interrupts]:
    """Call `interrupt(reason)` on the first signal. Outside the main thread no handlers are installed."""
    ours = bool(_guards)
    interrupts = _guards[-1] if ours else Interrupts(ours=False)
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    with ExitStack() as stack:
        stack.enter_context(interrupts.ending_by(interrupt))
        if not ours:
            stack.enter_context(_handled(interrupts))
        yield interrupts


def process_guard() -> Interrupts | None:
    """The guard of this process, where `guard_process` is active."""
    return _guards[-1] if _guards else None


@contextmanager
def _handled(interrupts: Interrupts) -> Iterator[None]:
    # If SIGHUP is ignored (nohup), the run must outlive the terminal.
    numbers = [n for n in HANDLED if not (n not in (signal.SIGINT, signal.SIGTERM) and _ignored(n))]
    before = {number: signal.signal(number, interrupts.handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _ignored(number: int) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN


def _grace() -> float:
    text = os.environ.get("GYMLAB_GRACE", "")
    try:
        seconds = float(text) if text else GRACE_SECONDS
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e6:
        raise UserError(f"$GYMLAB_GRACE={text!r}: seconds a run may take to end after a signal, e.g. 8")
    return seconds
