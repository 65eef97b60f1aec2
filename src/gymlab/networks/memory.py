"""Policies with memory: a recurrent cell run over time, with its carry reset where an episode begins."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.arrays import reset_carry
from gymlab.core.types import Array, PolicyInputs, Tree

Cell = Callable[[Tree, Tree], tuple[Tree, Tree]]  # (inputs of one step, carry) -> (outputs, carry)


def scan_memory(cell: Cell, inputs: Tree, steps: PolicyInputs, initial: Tree) -> tuple[Tree, Tree]:
    """The cell over (T, N, ...) inputs of these steps: its outputs, and the carry after each step, not yet reset."""

    def one(carry: Tree, step: tuple[Tree, Array]) -> tuple[Tree, tuple[Tree, Tree]]:
        at, starts = step
        outputs, carry = cell(at, reset_carry(carry, starts, initial))
        return carry, (outputs, carry)

    return lax.scan(one, steps.carry, (inputs, episode_starts(steps)))[1]


def episode_starts(steps: PolicyInputs) -> Array:
    """(T, N) where a step is an episode's first; the first of all is left out: its carry is reset already.

    Not where one was cut: under episodic life an end that learning sees begins no new episode.
    """
    return jnp.concatenate([jnp.zeros_like(steps.fresh[:1]), steps.fresh[:-1]])


def carries_before(steps: PolicyInputs, carries: Tree, initial: Tree) -> Tree:
    """(T, N, ...) the carry that each step begins with, from those after each step."""
    shifted = jax.tree.map(lambda first, after: jnp.concatenate([first[None], after[:-1]]), steps.carry, carries)
    return jax.vmap(reset_carry, (0, 0, None))(shifted, episode_starts(steps), initial)
