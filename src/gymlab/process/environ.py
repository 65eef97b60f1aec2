"""Environment variables of the Python processes that this one starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def child_environ(**more: str) -> dict[str, str]:
    """Our own, with our import path as PYTHONPATH: the child finds the same modules, also those beside a script."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path), **more}


def gymlab_environ(runs_dir: Path) -> dict[str, str]:
    """For a gymlab command on these runs whose output is read by a program: no colour, 100 columns."""
    return {**os.environ, "GYMLAB_RUNS": str(runs_dir), "NO_COLOR": "1", "COLUMNS": "100"}
