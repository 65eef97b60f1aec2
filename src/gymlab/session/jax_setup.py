"""Sets JAX up in a gymlab process: synchronous CPU dispatch, a persistent compilation cache, threads and device."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymlab.core.errors import UserError
from gymlab.session.jax_internals import write_cache_atomically
from gymlab.session.startup_tuning import cache_small_programs, compile_quickly

if TYPE_CHECKING:
    from gymlab.recipes.schema import Recipe

# Up to these sizes one thread is faster than two, and gives the same bits.
_TINY_UNITS = 64
_TINY_BATCH = 256
_TINY_ROLLOUT = 4096


def set_up_jax(cache: Path) -> None:
    """Call before the first computation; further calls change nothing."""
    import jax

    compile_quickly()
    # A host loop waits for every action anyway: dispatching to another thread only costs time.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax.config.update("jax_compilation_cache_dir", str(cache / f"xla-{_machine()}"))
    cache_small_programs()
    write_cache_atomically()


def choose_device(requested: str, *, host_engine: bool, small: bool) -> tuple[str, str]:
    """The device to compute on ('cpu' or 'gpu') and why; makes it JAX's default."""
    import jax

    try:
        gpus = jax.devices("gpu")
    except RuntimeError:
        gpus = []
    if requested == "gpu" and not gpus:
        raise UserError("device: gpu was asked for but JAX sees none: install gymlab[cuda], or use device: cpu")
    if requested == "cpu" or not gpus:
        name = "cpu"
        why = "asked for" if requested == "cpu" else "no GPU found"
    elif requested == "auto" and host_engine and small:
        name = "cpu"
        why = "a small network with host envs is faster there"
    else:
        name = "gpu"
        why = "asked for" if requested == "gpu" else "found one"
    jax.config.update("jax_default_device", (gpus if name == "gpu" else jax.devices("cpu"))[0])
    return name, why


def cpu_beside_gpu() -> Any:
    """The CPU device of a machine with a GPU; None if the CPU is the default or disabled."""
    import jax

    try:
        return None if jax.default_backend() == "cpu" else jax.devices("cpu")[0]
    except RuntimeError:
        return None


def use_threads(recipe: Recipe) -> None:
    """One XLA thread for a tiny run, in this process and its children; call before the first computation.

    Distributing little work over threads only costs time. Compiling still uses all cores.
    """
    if is_tiny(recipe):
        os.environ.setdefault("PJRT_NPROC", "1")


def is_tiny(recipe: Recipe) -> bool:
    """Whether one thread is faster, with equal bits (tests/session/test_jax_setup.py)."""
    from gymlab.algorithms.a2c import A2CSettings
    from gymlab.algorithms.ppo import PPOSettings
    from gymlab.envs.ports.registry import PORTS
    from gymlab.envs.registry import resolve_id

    settings = recipe.algorithm.settings
    policy = recipe.policy
    rollout = recipe.n_envs * recipe.n_steps
    batch = settings.minibatch_size(rollout) if isinstance(settings, PPOSettings) else rollout
    return (
        isinstance(settings, PPOSettings | A2CSettings)
        and policy.encoder is None
        and max((*policy.hidden, *(policy.value_hidden or ())), default=0) <= _TINY_UNITS
        and batch <= _TINY_BATCH
        and rollout <= _TINY_ROLLOUT
        and not recipe.env.wrappers
        and resolve_id(recipe.env.id).id in PORTS
    )


def _machine() -> str:
    """A hash of the CPU model: code compiled for one must not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        facts = "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
    except OSError:
        import platform

        facts = platform.machine() + platform.processor()
    return hashlib.sha256(facts.encode()).hexdigest()[:12]
