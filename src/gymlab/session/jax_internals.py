"""The only uses of JAX's private modules. Where one is missing or has changed, JAX's stock behaviour stays, silently.

Not even an import of them may fail a run: `tests/session/test_jax_internals.py` removes and changes each in turn.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gymlab.runs.files import atomic

log = logging.getLogger(__name__)
_STOCK_PUT = ["self", "key", "value"]  # the parameters of LRUCache.put in JAX 0.10 to 0.12


def backends_are_initialized() -> bool:
    """Whether JAX has started, and so no longer reads XLA_FLAGS; True where it does not tell."""
    try:
        from jax._src import xla_bridge

        return xla_bridge.backends_are_initialized() is not False
    except Exception:  # whatever another version raises
        return True


def write_cache_atomically() -> None:
    """Write entries of JAX's compilation cache with a rename.

    JAX writes them in place and never replaces them: one truncated by a kill would cause a warning and a compilation at
    every later start.
    """
    try:
        from jax._src import lru_cache

        stock = lru_cache.LRUCache.put
        suffix = lru_cache._CACHE_SUFFIX
        if list(inspect.signature(stock).parameters) == _STOCK_PUT and isinstance(suffix, str):
            lru_cache.LRUCache.put = _atomic_put(stock, suffix)  # type: ignore[method-assign,assignment]
    except Exception as error:  # whatever another version raises
        log.debug("JAX writes its compilation cache itself: %s", error)


def _atomic_put(stock: Callable[..., None], suffix: str) -> Callable[[Any, str, bytes], None]:
    def put(cache: Any, key: str, value: bytes) -> None:
        path = getattr(cache, "path", None)
        if not isinstance(path, Path) or getattr(cache, "eviction_enabled", True):
            stock(cache, key, value)  # a bounded cache, or one in a bucket, has files of its own beside the entries
            return
        entry = path / f"{key}{suffix}"
        if entry.exists():
            return
        try:
            with atomic(entry, durable=False) as file:  # not `write_bytes`, which releases the cooperative lock
                file.write(value)
        except OSError as error:  # without the cache a run only compiles again
            log.warning("a compiled program could not be written to the cache: %s", error)

    return put
