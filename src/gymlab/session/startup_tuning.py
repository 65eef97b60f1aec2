"""The measures that make a run start sooner, and what each buys. One that buys less than 5 % is not here.

`benchmarks/startup.py` measures them: CartPole-v1:ppo, 10k env steps, with all of them and without one, in turn; cold
is an empty compilation cache. Ratios are medians of 10 pairs on two cores that others used too (load 5 to 20): CPU
seconds say what a measure costs or saves, the wall time of a busy machine varies too much to say it.

| without                                    | cold, CPU | warm, CPU | warm, wall |
|--------------------------------------------|----------:|----------:|-----------:|
| LLVM -O1 (`compile_quickly`)               |      1.10 |      1.02 |       0.98 |
| garbage collection deferred                |      1.01 |      1.07 |       1.05 |
| keys made on the host (`core.jax_keys`)    |      1.01 |      1.05 |       1.10 |
| updates compiled ahead (`CompiledTrainer`) |      0.94 |      1.05 |       1.12 |
| evaluation compiled ahead                  |      1.00 |      1.04 |       0.94 |
| small programs cached                      |      1.00 |      1.01 |       1.08 |

What is compiled ahead saves no CPU time: it uses a core that would be idle, and the first evaluation finds its program
ready. Small programs are cached for machines that compile them in under a second, from where on JAX keeps them itself;
on the busy machine each took longer. There a limit of 5 s, about what 1 s is on an idle one, costs a warm start 1.3
times the CPU time. Gone, as it bought less: writing the cache while the program runs (0.96 and 1.01, and it lost
programs that sort). Giving freed memory back to the OS (`CompiledTrainer`) saves memory, not time: 4 % of a warm run's
peak.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from gymlab.session.jax_internals import backends_are_initialized

if TYPE_CHECKING:
    from gymlab.session.build import Parts
    from gymlab.training.state import TrainState
    from gymlab.training.trainer_compiled import CompiledTrainer

_LEVEL = "xla_backend_optimization_level"


def compile_quickly() -> None:
    """LLVM -O1 instead of -O3, with programs as fast, on a GPU too.

    It rounds differently, so that it must not change within a run: a run's fingerprint holds XLA_FLAGS.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if _LEVEL not in flags and not backends_are_initialized():  # else it is no longer read
        os.environ["XLA_FLAGS"] = f"{flags} --{_LEVEL}=1".strip()


def cache_small_programs() -> None:
    """Keep programs that took 0.05 s to compile; JAX keeps those that took 1 s, which on a fast machine are none."""
    import jax

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)


def defer_collection() -> None:
    """No garbage collection until `resume_collection`: nearly all objects made before live as long as the run."""
    gc.disable()


def resume_collection() -> None:
    """Collect garbage again where it was deferred, but none of the objects that exist by now."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def end_deferral() -> None:
    """Collect everything again, at the end of what began with `defer_collection`."""
    gc.enable()
    gc.unfreeze()


def compile_evaluation(parts: Parts, program: CompiledTrainer, state: TrainState) -> threading.Thread:
    """A thread that traces evaluation while the updates are compiled, which needs no Python, and then compiles it.

    Compiling the updates uses every core, so evaluation waits for them: it does not delay the first update.
    """
    from gymlab.session.build import evaluation_episodes

    settings = parts.recipe.eval
    deciding = "final" if parts.full_budget else "confirm"
    final = evaluation_episodes(parts.recipe, deciding, parts.spaces.max_episode_steps)
    policy = parts.agent.policy(state)
    obs = state.groups[0].obs
    evaluator = parts.evaluator
    max_envs = settings.max_envs

    def prepare() -> None:
        with suppress(Exception):  # any error of env code or JAX is raised again by the evaluation itself
            if evaluator.compiled is not None and settings.steps is None:
                evaluator.compiled.prepare(policy, settings.episodes, max_envs, program.wait_compiled)
            else:
                evaluator.prepare(policy, obs, settings.episodes, max_envs)
            program.wait_compiled()
            evaluator.prepare(policy, obs, final, max_envs)

    thread = threading.Thread(target=prepare, name="compile evaluation")
    thread.start()
    return thread
