"""Transforms: wrappers of whole VecSteps, written once for NumPy and JAX arrays, with state in every checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from gymlab.core.settings import Settings
from gymlab.core.types import Array, Masked, Space, Spaces, Tree, VecStep


class Transform(Protocol):
    """A frozen value with three pure methods; its state is a pytree of arrays and part of TrainState.

    `space` is called first. `apply` sees every step in order, the first one (all `fresh`) included. Two more methods
    are optional: `spaces(spaces)` where more than the observation space changes or must be known, and
    `act(state, action, key) -> (state, action)`, which gets the action before the env does, outermost transform
    first, and may store or replace it. One that is `training_only` is left out of evaluation unless its recipe
    says `in_evaluation: true`.
    """

    @property
    def random(self) -> bool:
        """Whether `apply` and `act` need a key; otherwise they get None."""
        ...

    def space(self, space: Space) -> Space:
        """The observation space after this transform."""
        ...

    def init(self, n: int) -> Tree:
        """The state before the first step of n envs."""
        ...

    def apply(self, state: Tree, step: VecStep, key: Array | None) -> tuple[Tree, VecStep]:
        """The next state and the changed step."""
        ...


class BaseTransform(Settings):
    """Defaults of most transforms: deterministic, stateless, the same observation space."""

    random: ClassVar[bool] = False
    adds: ClassVar[tuple[str, ...]] = ()  # names of the parts it adds to the training reward

    def space(self, space: Space) -> Space:
        return space

    def init(self, n: int) -> Tree:  # noqa: ARG002 - nothing to remember
        return ()


def transformed(spaces: Spaces, transforms: tuple[Transform, ...]) -> Spaces:
    """The spaces behind these transforms. Must be called before their `init`."""
    names = ["env"]
    for transform in transforms:
        if hasattr(transform, "check_parts") and all(hasattr(other, "adds") for other in transforms):
            transform.check_parts(names)  # transforms of users may lack `adds`
        names += getattr(transform, "adds", ())
        if hasattr(transform, "spaces"):
            spaces = transform.spaces(spaces)
        else:
            spaces = spaces._replace(observation=transform.space(spaces.observation))
    return spaces


def map_unmasked(obs: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """`change` the observation and keep its action mask, if it has one."""
    return Masked(change(obs.obs), obs.mask) if isinstance(obs, Masked) else change(obs)


def unmasked(obs: Tree) -> Tree:
    """The observation without its action mask."""
    return obs.obs if isinstance(obs, Masked) else obs


def map_observations(step: VecStep, change: Callable[[Tree], Tree]) -> VecStep:
    """The step with `change` applied to both of its observations."""
    return step._replace(obs=map_unmasked(step.obs, change), successor=map_unmasked(step.successor, change))


def is_reset(step: VecStep) -> Array:
    """(N,) the rows of a reset: no action was taken and no episode ended."""
    return step.fresh & ~(step.terminated | step.truncated)
