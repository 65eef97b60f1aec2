"""SIGINT while the modules of the command load.

`gymlab.__main__` imports this module first, so it imports nothing but small standard modules.
"""

from __future__ import annotations

import signal
import threading


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
