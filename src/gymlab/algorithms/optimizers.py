"""Optimizers: Adam (Kingma & Ba, 2015), RMSprop (Hinton, 2012) and SGD, and the gradient step with norm clipping."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.types import Array, Tree
from gymlab.networks.module import Params

_FIRST = 0.9  # decays: Adam's two, RMSprop's
_SECOND = 0.999
_SQUARES = 0.99
_MOST = jnp.iinfo(jnp.int32).max


class Adam(NamedTuple):
    count: Array
    mu: Tree
    nu: Tree

    @classmethod
    def init(cls, params: Tree) -> Adam:
        return cls(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))

    def update(self, grads: Tree, eps: float) -> tuple[Tree, Adam]:
        """The directions to go, and the new moments."""
        mu = jax.tree.map(lambda g, m: (1 - _FIRST) * g + _FIRST * m, grads, self.mu)
        nu = _squares(grads, self.nu, _SECOND)
        count = jnp.where(self.count < _MOST, self.count + 1, _MOST)
        first = 1 - _FIRST**count  # what moments that began at zero lack
        second = 1 - _SECOND**count
        return jax.tree.map(lambda m, v: (m / first) / (jnp.sqrt(v / second) + eps), mu, nu), Adam(count, mu, nu)


class RmsProp(NamedTuple):
    nu: Tree

    @classmethod
    def init(cls, params: Tree) -> RmsProp:
        return cls(jax.tree.map(jnp.zeros_like, params))

    def update(self, grads: Tree, eps: float) -> tuple[Tree, RmsProp]:
        nu = _squares(grads, self.nu, _SQUARES)
        return jax.tree.map(lambda v, g: (1 / (jnp.sqrt(v) + eps)) * g, nu, grads), RmsProp(nu)


class Sgd(NamedTuple):
    """The gradient itself."""

    @classmethod
    def init(cls, params: Tree) -> Sgd:
        del params
        return cls()

    def update(self, grads: Tree, eps: float) -> tuple[Tree, Sgd]:
        del eps
        return grads, self


GradientMoments = Adam | RmsProp | Sgd
OPTIMIZERS: dict[str, type[Adam] | type[RmsProp] | type[Sgd]] = {"adam": Adam, "rmsprop": RmsProp, "sgd": Sgd}


def _squares(grads: Tree, before: Tree, decay: float) -> Tree:
    return jax.tree.map(lambda g, v: (1 - decay) * (g**2) + decay * v, grads, before)


class OptimizerState(NamedTuple):
    moments: GradientMoments
    learning_rate: Array  # of the last update, to notice a change


def init_optimizer(settings: AlgorithmSettings, params: Params) -> OptimizerState:
    return OptimizerState(OPTIMIZERS[settings.optimizer].init(params), jnp.full((), -1.0, jnp.float32))


def start_update(
    settings: AlgorithmSettings, state: OptimizerState, params: Params, learning_rate: Array
) -> OptimizerState:
    """Called once per update: forget the moments if the learning rate changed and the settings ask for that."""
    rate = jnp.asarray(learning_rate, jnp.float32)
    if settings.on_lr_change == "keep":
        return OptimizerState(state.moments, rate)
    changed = (rate != state.learning_rate) & (state.learning_rate >= 0)
    blank = OPTIMIZERS[settings.optimizer].init(params)
    return OptimizerState(jax.tree.map(lambda new, old: jnp.where(changed, new, old), blank, state.moments), rate)


def apply_gradients(
    settings: AlgorithmSettings, state: OptimizerState, params: Params, grads: Params, max_grad_norm: Array
) -> tuple[Params, OptimizerState, Array]:
    """New parameters, new state and the gradients' norm before clipping."""
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in grads.values()))
    scale = clip_scale(norm, max_grad_norm)
    grads = jax.tree.map(lambda g: g * scale, grads)
    directions, moments = state.moments.update(grads, settings.optimizer_eps)
    params = jax.tree.map(lambda p, d: p - state.learning_rate * d, params, directions)
    return params, OptimizerState(moments, state.learning_rate), norm


def clip_scale(norm: Array, limit: Array) -> Array:
    """What a gradient of this norm is multiplied by."""
    return jnp.minimum(1.0, limit / (norm + 1e-6))
