"""The command line, one file per command group.

`main` assembles the commands; `options`, `targets`, `startup`, `progress` and `detach` are shared by several. JAX and
Gymnasium are imported by the commands that need them, not at the top.
"""
