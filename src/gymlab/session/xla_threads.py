"""How many threads XLA computes with, in a process that is for one run."""

from __future__ import annotations

import os

from gymlab.algorithms.a2c import A2CSettings
from gymlab.algorithms.ppo import PPOSettings
from gymlab.envs.ports.registry import PORTS
from gymlab.envs.registry import resolve_id
from gymlab.recipes.schema import Recipe

UNITS = 64  # up to here two threads are slower than one, and round alike
BATCH = 256
ROLLOUT = 4096


def use_threads(recipe: Recipe) -> None:
    """One for a tiny run, here and in the processes it starts; to be called before the first computation.

    Where there is too little to share, handing it out only costs time. Compiling goes on using all cores.
    """
    if is_tiny(recipe):
        os.environ.setdefault("PJRT_NPROC", "1")


def is_tiny(recipe: Recipe) -> bool:
    """Whether one thread is faster, with equal bits (tests/session/test_xla_threads.py)."""
    settings = recipe.algorithm.settings
    policy = recipe.policy
    rollout = recipe.n_envs * recipe.n_steps
    batch = settings.minibatch_size(rollout) if isinstance(settings, PPOSettings) else rollout
    return (
        isinstance(settings, PPOSettings | A2CSettings)
        and policy.encoder is None
        and max((*policy.hidden, *(policy.value_hidden or ())), default=0) <= UNITS
        and batch <= BATCH
        and rollout <= ROLLOUT
        and not recipe.env.wrappers
        and resolve_id(recipe.env.id).id in PORTS
    )
