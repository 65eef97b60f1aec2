"""Gradient steps whose learning rate and norm limit are numbers, so that schedules never recompile."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gymlab.algorithms.optimizers import KINDS, Moments
from gymlab.algorithms.settings import AlgorithmSettings
from gymlab.core.types import Array
from gymlab.networks.flat import Params


class State(NamedTuple):
    moments: Moments
    learning_rate: Array  # of the last update, to notice a change


def init(settings: AlgorithmSettings, params: Params) -> State:
    return State(KINDS[settings.optimizer].init(params), jnp.full((), -1.0, jnp.float32))


def begin(settings: AlgorithmSettings, state: State, params: Params, learning_rate: Array) -> State:
    """Called once per update: forget the moments if the learning rate changed and the settings ask for that."""
    rate = jnp.asarray(learning_rate, jnp.float32)
    if settings.on_lr_change == "keep":
        return State(state.moments, rate)
    changed = (rate != state.learning_rate) & (state.learning_rate >= 0)
    blank = KINDS[settings.optimizer].init(params)
    return State(jax.tree.map(lambda new, old: jnp.where(changed, new, old), blank, state.moments), rate)


def step(
    settings: AlgorithmSettings, state: State, params: Params, grads: Params, max_grad_norm: Array
) -> tuple[Params, State, Array]:
    """New parameters, new state and the gradients' norm before clipping."""
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in grads.values()))
    scale = clip_scale(norm, max_grad_norm)
    grads = jax.tree.map(lambda g: g * scale, grads)
    directions, moments = state.moments.update(grads, settings.optimizer_eps)
    params = jax.tree.map(lambda p, d: p - state.learning_rate * d, params, directions)
    return params, State(moments, state.learning_rate), norm


def clip_scale(norm: Array, limit: Array) -> Array:
    """What a gradient of this norm is multiplied by."""
    return jnp.minimum(1.0, limit / (norm + 1e-6))
