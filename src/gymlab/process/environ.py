"""What a Python process that this one starts must be given to find the same modules."""

from __future__ import annotations

import os
import sys


def child_environ(**more: str) -> dict[str, str]:
    """The environment for such a process: ours, and where our imports come from, such as the folder of a script."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path), **more}
