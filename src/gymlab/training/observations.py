"""Observations as numbers: by feature, all together, and from env to env."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from gymnasium import spaces as gym

from gymlab.core.types import Array, Tree
from gymlab.training.samples import Named

MOST_FEATURES = 64  # that are told one by one
_COMPARED = 64  # envs, with each other
_CHUNKS = 1024


def features(space: Any, obs: Tree, name: str = "") -> tuple[Array, list[str]]:
    """Observations as (S, features) numbers, and what each feature is called (`3`, `key.0`)."""
    prefix = f"{name}." if name else ""
    if isinstance(space, gym.Dict | gym.Tuple):
        parts = space.spaces.items() if isinstance(space, gym.Dict) else enumerate(space.spaces)
        found = [features(part, obs[key], f"{prefix}{key}") for key, part in parts]
        return jnp.concatenate([values for values, _ in found], 1), [one for _, names in found for one in names]
    flat = obs.reshape(len(obs), -1).astype(jnp.float32)
    if isinstance(space, gym.Discrete):
        return flat, [name or "0"]
    return flat, [f"{prefix}{place}" for place in range(flat.shape[1])]


def observation_statistics(flat: Array, names: list[str]) -> list[Named]:
    """Mean, std, lowest and highest over all features, and of each where there are not too many."""
    mean = flat.mean(0)
    low = flat.min(0)
    high = flat.max(0)
    variance = ((flat - mean) ** 2).mean(0)
    whole = mean.mean()
    spread = jnp.sqrt((variance + (mean - whole) ** 2).mean())
    found: list[Named] = [
        (
            ("env/obs_mean", "env/obs_std", "env/obs_min", "env/obs_max"),
            jnp.stack([whole, spread, low.min(), high.max()]),
        )
    ]
    if 1 < len(names) <= MOST_FEATURES:
        told = (("mean", mean), ("std", jnp.sqrt(variance)), ("min", low), ("max", high))
        found += [(tuple(f"env/obs_{word}/{name}" for name in names), values) for word, values in told]
    return found


def identical(obs: Tree) -> list[Named]:
    """Share of envs whose observation (N, *obs) is another's too; large ones are compared by the sums of chunks."""
    leaves = [leaf[:_COMPARED].reshape(min(len(leaf), _COMPARED), -1) for leaf in jax.tree.leaves(obs)]
    if len(leaves[0]) < 2:
        return []
    rows = []
    for leaf in leaves:
        chunk = -(-leaf.shape[1] // _CHUNKS)
        padded = jnp.pad(leaf.astype(jnp.float32), ((0, 0), (0, -leaf.shape[1] % chunk)))
        rows.append(padded.reshape(len(leaf), -1, chunk).sum(-1))
    values = jnp.concatenate(rows, 1)
    same = (values[:, None] == values[None]).all(-1) & ~jnp.eye(len(values), dtype=bool)
    return [(("env/identical",), same.any(1).mean()[None])]
