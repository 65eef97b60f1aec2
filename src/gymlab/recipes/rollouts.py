"""Rollouts of another size than a recipe's that its algorithm still accepts."""

from __future__ import annotations

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.recipes.schema import check_rollout


def fitting_n_steps(settings: AlgorithmSettings, n_envs: int, wanted: int) -> int | None:
    """The largest n_steps up to `wanted` that the algorithm accepts, else the next above; None where none is near."""
    for n_steps in (*range(wanted, 0, -1), *range(wanted + 1, 2 * wanted + 65)):
        try:
            check_rollout(settings, n_envs, n_steps)
        except ValueError:
            continue
        return n_steps
    return None
