"""Ctrl-C while the command line itself is loaded: the process ends, without a traceback of its imports."""

from __future__ import annotations

import signal
import threading


def hush() -> None:
    """Until `listen`, SIGINT ends the process as the system does it. Elsewhere than in the main thread: nothing."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def listen() -> None:
    """From here on SIGINT is a KeyboardInterrupt again, where `hush` had changed that."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
