"""The command line. Nothing here imports JAX or Gymnasium before a command needs it."""
