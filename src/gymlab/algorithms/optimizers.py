"""Optimizers: Optax's gradient transformations, and the gradient step with norm clipping.

A transformation gives the direction of a step; its length, the learning rate, is a number of each update, so that a
schedule compiles nothing anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.errors import UserError
from gymlab.core.types import Array, Tree
from gymlab.networks.flat_network import Params

if TYPE_CHECKING:
    from optax import GradientTransformation

MakeOptimizer = Callable[[], "GradientTransformation"]  # of a user's own
ADAMW_DECAY = 0.01


class OptimizerState(NamedTuple):
    moments: Tree  # Optax's
    learning_rate: Array  # of the last update, to notice a change


class Optimizer:
    """An Optax transformation, by name or a user's own, and the settings around it."""

    def __init__(self, settings: AlgorithmSettings, make: MakeOptimizer | None = None) -> None:
        self._settings = settings
        self._make = make

    def init(self, params: Params) -> OptimizerState:
        return OptimizerState(self._transformation.init(params), jnp.full((), -1.0, jnp.float32))

    def start_update(self, state: OptimizerState, params: Params, learning_rate: Array) -> OptimizerState:
        """Called once per update: forget the moments if the learning rate changed and the settings ask for that."""
        rate = jnp.asarray(learning_rate, jnp.float32)
        if self._settings.on_lr_change == "keep":
            return OptimizerState(state.moments, rate)
        changed = (rate != state.learning_rate) & (state.learning_rate >= 0)
        blank = self._transformation.init(params)
        return OptimizerState(jax.tree.map(lambda new, old: jnp.where(changed, new, old), blank, state.moments), rate)

    def step(
        self, state: OptimizerState, params: Params, grads: Params, max_grad_norm: Array
    ) -> tuple[Params, OptimizerState, Array]:
        """New parameters, new state and the gradients' norm before clipping."""
        assert grads.keys() == params.keys(), "gradients of another network"
        norm = jnp.sqrt(sum(jnp.sum(g**2) for g in grads.values()))
        scale = clip_scale(norm, max_grad_norm)
        grads = jax.tree.map(lambda g: g * scale, grads)
        directions, moments = self._transformation.update(grads, state.moments, params)
        assert all(directions[name].shape == p.shape for name, p in params.items()), "directions of another shape"
        params = jax.tree.map(lambda p, d: p - state.learning_rate * d, params, directions)
        return params, OptimizerState(moments, state.learning_rate), norm

    @cached_property
    def _transformation(self) -> GradientTransformation:
        """Optax is imported only here: processes that read settings or evaluate do without."""
        import optax

        transformation = _named(self._settings) if self._make is None else self._make()
        decay = decay_rate(self._settings)
        return optax.chain(transformation, optax.add_decayed_weights(decay)) if decay else transformation


def clip_scale(norm: Array, limit: Array) -> Array:
    """What a gradient of this norm is multiplied by."""
    return jnp.minimum(1.0, limit / (norm + 1e-6))


def check_optimizer(name: str, make: object) -> MakeOptimizer:
    """A user's optimiser, called once: UserError unless it gives directions to descend along, without a length."""
    import optax

    if not callable(make):
        raise UserError(f"optimizer: '{name}' is not a function that returns an optax.GradientTransformation")
    try:
        transformation = make()
    except TypeError as error:
        raise UserError(f"optimizer: '{name}' cannot be called without arguments: {error}") from error
    if not isinstance(transformation, optax.GradientTransformation):
        kind = type(transformation).__name__
        raise UserError(f"optimizer: '{name}' does not return an optax.GradientTransformation (got {kind})")
    params = {"w": jnp.zeros(64)}  # zeros: weight decay must not count
    direction, _ = transformation.update({"w": jnp.ones(64)}, transformation.init(params), params)
    if direction["w"].sum() <= 0:
        raise UserError(
            f"optimizer: the updates of '{name}' do not follow the gradient: leave the learning rate and its sign out "
            "(optax.scale_by_adam, not optax.adam)"
        )
    return make


def _named(settings: AlgorithmSettings) -> GradientTransformation:
    """One of OPTIMIZER_NAMES."""
    import optax

    eps = settings.optimizer_eps
    match settings.optimizer:
        case "adam" | "adamw":
            return optax.scale_by_adam(eps=eps)
        case "radam":
            return optax.scale_by_radam(eps=eps)
        case "rmsprop":
            return optax.scale_by_rms(decay=0.99, eps=eps, eps_in_sqrt=False)
        case "sgd":
            return optax.identity()
    raise AssertionError(settings.optimizer)


def decay_rate(settings: AlgorithmSettings) -> float:
    """The weight decay of the settings, or of their optimiser by default."""
    if settings.weight_decay is None:
        return ADAMW_DECAY if settings.optimizer == "adamw" else 0.0
    return settings.weight_decay
