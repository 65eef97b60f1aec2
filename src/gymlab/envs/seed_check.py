"""Whether envs with other seeds differ at all: if not, stepping many side by side shows the same thing many times."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from gymlab.envs.make import make_env
from gymlab.envs.settings import EnvSettings

STEPS = 32
SEEDS = (1, 2, 3)


def copies(settings: EnvSettings, imports: tuple[str, ...] = ()) -> bool:
    """Whether envs that were reset with different seeds give the same for the same actions, to the last bit.

    One env at a time: some kinds cannot be made twice in a process.
    """
    seen = {_life(settings, imports, seed) for seed in SEEDS[:2]}
    return len(seen) == 1 and _life(settings, imports, SEEDS[2]) in seen


def _life(settings: EnvSettings, imports: tuple[str, ...], seed: int) -> str:
    """A digest of all that an env gives in a few steps, episodes that end included."""
    env = make_env(settings, imports=imports)
    digest = hashlib.sha256()
    try:
        env.action_space.seed(0)
        _add(digest, env.reset(seed=seed)[0])
        for step in range(STEPS):
            obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            _add(digest, (obs, float(reward), bool(terminated)))
            if terminated or truncated:
                _add(digest, env.reset(seed=1000 * seed + step)[0])
    finally:
        env.close()
    return digest.hexdigest()


def _add(digest: Any, value: Any) -> None:
    if isinstance(value, dict):
        value = tuple(sorted(value.items()))
    if isinstance(value, tuple | list):
        for item in value:
            _add(digest, item)
    else:
        array = np.asarray(value)
        digest.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
