"""The start of the command: when it was, where it was, and SIGINT while its modules load.

`gymlab.__main__` imports this module first, so it imports nothing but small standard modules.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

_BEGAN = time.monotonic()


def seconds_since_start() -> float:
    """Since the command was started, without the few hundredths that Python itself takes to start."""
    return time.monotonic() - _BEGAN


def outlived_by_children() -> bool:
    """Whether processes that we start may go on when we end: at a terminal somebody reads where their results will be.

    Not in a pipe, in CI, or as the main process of a container, which ends with it.
    """
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        return False
    if 1 in (os.getpid(), os.getppid()):
        return False
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):  # closed
        return False


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
