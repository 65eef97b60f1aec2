"""Attribution (saliency): gradients of the policy and of the value with respect to the observation.

Of the policy that is the log-probability of the action taken or, as this has no slope at the mode of a Gaussian, the
sum of its means. It is by the observation as the policy gets it, through the normaliser. Choices have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.algorithms.base import ActorCriticAlgorithm
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Masked, Tree
from gymlab.media.policy_player import PolicyPlayer
from gymlab.networks.distributions import Gaussian
from gymlab.training.state import Policy

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


class Attribution(NamedTuple):
    """Trees in the shape of the observation; None where there is no gradient."""

    policy: Tree
    value: Tree


class Attributor:
    """Compiled once per session."""

    def __init__(self, player: PolicyPlayer) -> None:
        algorithm = player.agent.algorithm
        if not isinstance(algorithm, ActorCriticAlgorithm):
            raise UserError(
                f"{player.recipe.algorithm.name} is not an actor-critic algorithm: it has no gradients here"
            )
        if algorithm.has_memory:
            raise UserError(f"{player.recipe.algorithm.name} has memory: one observation alone has no gradients here")
        self._gradients = jax.jit(_gradients_of(player, algorithm), static_argnums=0)

    def __call__(self, policy: Policy, observation: Tree, mask: Array | None, choice: Array) -> Attribution:
        """Gradients at one observation and one action of the policy."""
        leaves, shape = jax.tree.flatten(observation)
        smooth = tuple(_is_smooth(np.asarray(leaf)) for leaf in leaves)
        if not any(smooth):
            raise UserError("an observation made of choices alone has no gradient: edit it instead")
        leaves_in = [
            np.asarray(leaf, np.float32) if ok else np.asarray(leaf) for leaf, ok in zip(leaves, smooth, strict=True)
        ]
        numbers = [leaf for leaf, ok in zip(leaves_in, smooth, strict=True) if ok]
        both = self._gradients((shape, smooth), policy, numbers, leaves_in, mask, np.asarray(choice))

        def to_tree(gradients: list[Array]) -> Tree:
            found = iter(gradients)
            return jax.tree.unflatten(shape, [np.asarray(next(found)) if ok else None for ok in smooth])

        return Attribution(*map(to_tree, both))


def _is_smooth(leaf: np.ndarray) -> bool:
    """Differentiable: floats and pixels; pixels may be bytes or, in MinAtar, booleans."""
    return leaf.dtype.kind in "fb" or leaf.dtype == np.uint8


def _gradients_of(
    player: PolicyPlayer, algorithm: ActorCriticAlgorithm
) -> Callable[..., tuple[list[Array], list[Array]]]:
    def gradients(
        static: tuple[PyTreeDef, tuple[bool, ...]],
        policy: Policy,
        numbers: list[Array],
        leaves_in: list[Array],
        mask: Array | None,
        choice: Array,
    ) -> tuple[list[Array], list[Array]]:
        shape, smooth = static

        def outputs(numbers: list[Array]) -> tuple[Array, Array]:
            found = iter(numbers)
            leaves = [next(found) if ok else leaf for leaf, ok in zip(leaves_in, smooth, strict=True)]
            obs = jax.tree.unflatten(shape, [jnp.asarray(leaf)[None] for leaf in leaves])
            obs = obs if mask is None else Masked(obs, jnp.asarray(mask)[None])
            seen = player.agent.observe(policy, obs)
            trace = algorithm.look(policy.weights, seen, ())
            chosen = trace.distribution
            leaning = chosen.mean.sum() if isinstance(chosen, Gaussian) else chosen.log_prob(choice[None])[0]
            return leaning, trace.values[0]

        return jax.grad(lambda x: outputs(x)[0])(numbers), jax.grad(lambda x: outputs(x)[1])(numbers)

    return gradients
