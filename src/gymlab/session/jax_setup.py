"""How JAX is set up in a gymlab process: synchronous on the CPU, with a compilation cache that outlives it."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from pathlib import Path
from typing import Any

from gymlab.core.errors import UserError
from gymlab.runs.files import atomic

log = logging.getLogger(__name__)
_LEVEL = "xla_backend_optimization_level"


def set_up_jax(cache: Path) -> None:
    """Call before the first computation; calling it again changes nothing."""
    import jax

    _compile_quickly()
    # A host loop waits for every action anyway: handing work to another thread only costs time.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax.config.update("jax_compilation_cache_dir", str(cache / f"xla-{_machine()}"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    _keep_cache_whole()
    _write_cache_aside()


def _compile_quickly() -> None:
    """LLVM's first level instead of its third: a sixth less to compile, and programs as fast, on a GPU too.

    It rounds otherwise, so that it must not change within a run: a run's fingerprint holds XLA_FLAGS.
    """
    from jax._src.xla_bridge import backends_are_initialized

    flags = os.environ.get("XLA_FLAGS", "")
    if _LEVEL not in flags and not backends_are_initialized():  # later it would no longer be read
        os.environ["XLA_FLAGS"] = f"{flags} --{_LEVEL}=1".strip()


def _keep_cache_whole() -> None:
    """JAX writes cache entries in place and never again: one cut short by a kill would warn, and be compiled anew, at
    every start from then on. Ours appear whole or not at all.
    """
    from jax._src.lru_cache import LRUCache  # there is no public way; the constraints file holds the version

    def put(cache: Any, key: str, value: bytes) -> None:
        path = Path(cache.path) / f"{key}-cache"
        if not path.exists():
            with atomic(path) as file:  # no `write_bytes`: other threads must not get their turn inside JAX
                file.write(value)

    LRUCache.put = put  # type: ignore[method-assign,assignment]


def _write_cache_aside() -> None:
    """JAX hands a compiled program over once it is in the cache, a quarter of a second later for a whole run's.

    Ours is written while it already runs; a process ends when all are.
    """
    from jax._src import compilation_cache

    write = compilation_cache.put_executable_and_time
    if hasattr(write, "aside"):
        return

    def put(*arguments: Any) -> None:
        def told() -> None:
            try:
                write(*arguments)
            except Exception as error:  # to compile it again some day is no reason to end a run
                log.warning("a compiled program could not be kept in the cache: %s", error)

        threading.Thread(target=told, name="compiled program is kept").start()

    put.aside = True  # type: ignore[attr-defined]
    compilation_cache.put_executable_and_time = put  # type: ignore[assignment]


def choose_device(wanted: str, *, host_engine: bool, small: bool) -> tuple[str, str]:
    """Which device the maths runs on ('cpu' or 'gpu') and why; makes it JAX's default."""
    import jax

    try:
        gpus = jax.devices("gpu")
    except RuntimeError:
        gpus = []
    if wanted == "gpu" and not gpus:
        raise UserError("device: gpu was asked for but JAX sees none: install gymlab[cuda], or use device: cpu")
    if wanted == "cpu" or not gpus:
        name = "cpu"
        why = "asked for" if wanted == "cpu" else "no GPU found"
    elif wanted == "auto" and host_engine and small:
        name = "cpu"
        why = "a small network with host envs is faster there"
    else:
        name = "gpu"
        why = "asked for" if wanted == "gpu" else "found one"
    jax.config.update("jax_default_device", (gpus if name == "gpu" else jax.devices("cpu"))[0])
    return name, why


def beside_gpu() -> Any:
    """The CPU as a device, where there is a GPU too; None where everything runs on the CPU, or nothing may."""
    import jax

    try:
        return None if jax.default_backend() == "cpu" else jax.devices("cpu")[0]
    except RuntimeError:
        return None


def _machine() -> str:
    """A cache made for one kind of CPU must not be read on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        facts = "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
    except OSError:
        import platform

        facts = platform.machine() + platform.processor()
    return hashlib.sha256(facts.encode()).hexdigest()[:12]
