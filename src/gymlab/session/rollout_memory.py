"""What a rollout takes in memory, refused before the run starts where it does not fit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax

from gymlab.core.errors import UserError
from gymlab.core.types import Spaces
from gymlab.experience.space_arrays import zero_action, zero_obs
from gymlab.recipes.schema import Recipe


def rollout_bytes(recipe: Recipe, spaces: Spaces) -> int:
    """About what one rollout takes in memory."""
    lead = (recipe.n_steps, recipe.n_envs)
    obs, action = jax.eval_shape(lambda: (zero_obs(spaces, lead), zero_action(spaces.action, lead)))

    def size(tree: Any) -> int:
        return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    return 2 * size(obs) + size(action) + 20 * math.prod(lead)  # obs and successor, action, scalars


def check_memory(recipe: Recipe, spaces: Spaces) -> None:
    needed = rollout_bytes(recipe, spaces)
    free = free_memory()
    if free is not None and needed > free:
        fits = max(1, int(recipe.n_steps * free / needed / 2))
        raise UserError(
            f"a rollout of {recipe.n_envs} envs x {recipe.n_steps} steps takes {needed / 2**30:.1f} GiB and "
            f"{free / 2**30:.1f} GiB are free: try n_steps={fits} or fewer envs"
        )


def free_memory() -> int | None:
    """Bytes that could be had without swapping; None where the system does not say."""
    try:
        facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
