"""What a transform is: a change to whole VecSteps, written once for NumPy and JAX arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from gymlab.core.types import Array, Masked, Tree, VecStep


class Transform(Protocol):
    """Frozen settings with three pure methods; its state is a pytree of (N, ...) arrays and part of TrainState.

    `space` is called once, before `init`. `apply` sees every step in order, the first one (all `fresh`) included.
    """

    random: bool  # whether `apply` needs a key; otherwise it gets None

    def space(self, space: Any) -> Any:
        """The observation space after this transform."""
        ...

    def init(self, n: int) -> Tree:
        """The state before the first step of n envs."""
        ...

    def apply(self, state: Tree, step: VecStep, key: Array | None) -> tuple[Tree, VecStep]:
        """The next state and the changed step."""
        ...


def inside(obs: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """`change` the observation, leaving an action mask around it as it is."""
    return Masked(change(obs.obs), obs.mask) if isinstance(obs, Masked) else change(obs)


def bare(obs: Tree) -> Tree:
    """The observation without its action mask."""
    return obs.obs if isinstance(obs, Masked) else obs
