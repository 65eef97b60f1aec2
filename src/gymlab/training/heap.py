"""What the C library keeps of memory that nobody uses any more."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress


def give_back_freed() -> None:
    """Hand it to the system: reading a compiled program leaves some 35 MB of it behind, compiling one far more.

    To let all threads share one heap instead would leave less there, but XLA's compile threads then wait for each other
    (a third slower), and what they leave scattered slows every later call.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
