"""The command line. Nothing here imports JAX or Gymnasium before a command needs it."""

from gymlab.cli.early import hush

hush()  # `gymlab.cli.main` listens again once all commands are loaded
