"""Optimizers: Optax's gradient transformations, and the gradient step with norm clipping.

A transformation gives the direction of a step; its length, the learning rate, is a number of each update, so that a
schedule compiles nothing anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.types import Array, Tree
from gymlab.networks.flat_network import Params

if TYPE_CHECKING:
    from optax import GradientTransformation


def _adam(eps: float) -> GradientTransformation:
    import optax

    return optax.scale_by_adam(eps=eps)


def _rmsprop(eps: float) -> GradientTransformation:
    import optax

    return optax.scale_by_rms(decay=0.99, eps=eps, eps_in_sqrt=False)


def _sgd(eps: float) -> GradientTransformation:
    import optax

    del eps
    return optax.identity()


# Optax is imported where it is first needed: commands that only read settings do without.
OPTIMIZERS: dict[str, Callable[[float], GradientTransformation]] = {"adam": _adam, "rmsprop": _rmsprop, "sgd": _sgd}


class OptimizerState(NamedTuple):
    moments: Tree  # Optax's
    learning_rate: Array  # of the last update, to notice a change


def init_optimizer(settings: AlgorithmSettings, params: Params) -> OptimizerState:
    return OptimizerState(_transformation(settings).init(params), jnp.full((), -1.0, jnp.float32))


def start_update(
    settings: AlgorithmSettings, state: OptimizerState, params: Params, learning_rate: Array
) -> OptimizerState:
    """Called once per update: forget the moments if the learning rate changed and the settings ask for that."""
    rate = jnp.asarray(learning_rate, jnp.float32)
    if settings.on_lr_change == "keep":
        return OptimizerState(state.moments, rate)
    changed = (rate != state.learning_rate) & (state.learning_rate >= 0)
    blank = _transformation(settings).init(params)
    return OptimizerState(jax.tree.map(lambda new, old: jnp.where(changed, new, old), blank, state.moments), rate)


def apply_gradients(
    settings: AlgorithmSettings, state: OptimizerState, params: Params, grads: Params, max_grad_norm: Array
) -> tuple[Params, OptimizerState, Array]:
    """New parameters, new state and the gradients' norm before clipping."""
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in grads.values()))
    scale = clip_scale(norm, max_grad_norm)
    grads = jax.tree.map(lambda g: g * scale, grads)
    directions, moments = _transformation(settings).update(grads, state.moments, params)
    params = jax.tree.map(lambda p, d: p - state.learning_rate * d, params, directions)
    return params, OptimizerState(moments, state.learning_rate), norm


def clip_scale(norm: Array, limit: Array) -> Array:
    """What a gradient of this norm is multiplied by."""
    return jnp.minimum(1.0, limit / (norm + 1e-6))


def _transformation(settings: AlgorithmSettings) -> GradientTransformation:
    return OPTIMIZERS[settings.optimizer](settings.optimizer_eps)
