"""An update made again under watch: every gradient step reports which of its tensors are not finite."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gymlab.algorithms.base import ActorCriticAlgorithm, Algorithm, Hyper, Metrics
from gymlab.core.types import Array, Rollout, Tree

log = logging.getLogger(__name__)


class Seen(NamedTuple):
    """A tensor that was not finite in a gradient step."""

    place: str
    tensor: str
    value: str
    gradient_step: int  # from 1


def watch_update(algorithm: Algorithm, state: Tree, rollouts: tuple[Rollout, ...], hp: Hyper, key: Array) -> list[Seen]:
    """What was not finite, in the order in which it came about; nothing where an algorithm has no `loss` to watch."""
    if not hasattr(algorithm, "loss"):
        return []
    watched: Any = copy.copy(algorithm)
    witness = _Witness(watched, watched.loss)
    watched.loss = witness.loss
    try:
        jax.block_until_ready(jax.jit(watched.update)(state, rollouts, hp, key))
        jax.effects_barrier()
    except Exception as error:  # looking closer must not hide what went wrong
        log.warning("the gradient steps could not be watched: %s: %s", type(error).__name__, error)
    return witness.seen


class _Witness:
    """Stands where an algorithm's loss stands, and sees what goes in, what comes out and the gradient of it."""

    def __init__(self, algorithm: Any, loss: Callable[..., tuple[Array, Metrics]]) -> None:
        self._algorithm = algorithm
        self._loss = loss
        self._step = 0
        self.seen: list[Seen] = []

    def loss(self, params: Tree, batch: Tree, *rest: Any, **more: Any) -> tuple[Array, Metrics]:
        self._report("parameter", params)
        self._report("batch", batch)
        if isinstance(self._algorithm, ActorCriticAlgorithm) and hasattr(batch, "obs"):
            distribution, value = self._algorithm.network(params).both(batch.obs)
            self._report("logits", {"policy": distribution, "value": value})
        loss, metrics = self._loss(self._with_gradient(params), batch, *rest, **more)
        parts = {name.removeprefix("opt/"): value for name, value in metrics.items() if name.endswith("_loss")}
        self._report("loss", parts)
        self._report("loss", {"loss": loss})
        return loss, metrics

    def _with_gradient(self, params: Tree) -> Tree:
        """The parameters themselves; what flows back to them is their gradient."""

        @jax.custom_vjp
        def same(params: Tree) -> Tree:
            return params

        def backward(_: None, gradient: Tree) -> tuple[Tree]:
            self._report("gradient", gradient)
            return (gradient,)

        same.defvjp(lambda params: (params, None), backward)
        return same(params)

    def _report(self, place: str, tree: Tree) -> None:
        leaves = jax.tree_util.tree_flatten_with_path(jax.lax.stop_gradient(tree))[0]
        floats = [(_name(path), leaf) for path, leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
        note = partial(self._note, place, [name for name, _ in floats])
        jax.debug.callback(note, [leaf for _, leaf in floats], ordered=True)

    def _note(self, place: str, names: list[str], arrays: list[Array]) -> None:
        self._step += place == "parameter"  # what a gradient step begins with
        known = {(seen.place, seen.tensor) for seen in self.seen}
        for name, array in zip(names, map(np.asarray, arrays), strict=True):
            place_of, step = _placed(place, name, self._step)
            if not np.isfinite(array).all() and (place_of, name) not in known:
                self.seen.append(Seen(place_of, name, spelt(array[~np.isfinite(array)][0]), step))


def spelt(value: Any) -> str:
    """A number that is none, as people write it."""
    return "NaN" if np.isnan(value) else f"{value:g}"


def _placed(place: str, name: str, step: int) -> tuple[str, int]:
    if place == "batch":
        parts = {"obs": "observation", "action": "action", "log_prob": "logits"}
        return parts.get(name.partition("/")[0], "advantage"), step
    return place, step - (place == "parameter")  # a parameter that comes in bad was made so by the step before


def _name(path: Tree) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
