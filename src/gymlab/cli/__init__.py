"""The command line. Nothing here imports JAX or Gymnasium before a command needs it."""

import sys
from pathlib import Path

from gymlab.cli.early import hush

_program = Path(sys.argv[0]) if sys.argv else Path()
if _program.stem == "gymlab" or _program.parent.name == "gymlab":  # the command itself, not a program that imports us
    hush()  # `gymlab.cli.main` listens again once all commands are loaded
