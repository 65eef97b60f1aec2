"""Seconds this process has spent compiling, as JAX's monitoring events report them."""

from __future__ import annotations

import jax

_STEPS = ("/jax/core/compile/jaxpr_to_mlir_module_duration", "/jax/core/compile/backend_compile_duration")
_spent = 0.0


def compile_seconds() -> float:
    """Seconds so far, in all threads; reading compiled code from the cache included."""
    return _spent


def _note(event: str, duration_secs: float, **_: str | int) -> None:
    global _spent  # noqa: PLW0603 - JAX knows listeners of the whole process only
    if event in _STEPS:
        _spent += duration_secs


jax.monitoring.register_event_duration_secs_listener(_note)
