"""Actions as the env received them, one by one: by component and by choice."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from gymnasium import spaces as gym

from gymlab.core.types import Array
from gymlab.networks.heads import to_env
from gymlab.training.samples import Named, sampled

MOST_COMPONENTS = 32  # of an action that are told one by one
MOST_CHOICES = 1024  # of a discrete action that are counted one by one
MOST_SHARES = 32  # of them that have a number of their own in the row


def _choices(space: Any) -> list[int]:
    """How many choices each component of a discrete action has; [] for continuous ones."""
    if isinstance(space, gym.Discrete):
        return [int(space.n)]
    if isinstance(space, gym.MultiDiscrete):
        return [int(n) for n in space.nvec.ravel()]
    return [2] * int(np.prod(space.shape)) if isinstance(space, gym.MultiBinary) else []


def _sent(space: Any, action: Array) -> Array:
    """(T * N, components) as the env received them."""
    sent = to_env(space, action)
    return sent.reshape(action.shape[0] * action.shape[1], -1)


def by_component(space: Any, action: Array) -> list[Named]:
    """Mean and std of each of several components."""
    sent = _sent(space, action).astype(jnp.float32)
    if not 1 < sent.shape[1] <= MOST_COMPONENTS:
        return []
    places = range(sent.shape[1])
    return [
        (tuple(f"roll/action_mean/{i}" for i in places), sent.mean(0)),
        (tuple(f"roll/action_std/{i}" for i in places), sent.std(0)),
    ]


class Choices(NamedTuple):
    """How often each discrete choice was taken, by component."""

    names: tuple[str, ...]  # of the histograms
    bins: tuple[int, ...]
    bars: Array  # low, high and counts of each, one after the other
    shares: list[Named]


def choices_taken(space: Any, action: Array) -> Choices | None:
    """All choices, counted exactly; None for continuous actions, or where there are too many choices."""
    counts = _choices(space)
    if not counts or sum(counts) > MOST_CHOICES:
        return None
    sent = _sent(space, action)
    starts = np.ravel(getattr(space, "start", 0)) * np.ones(len(counts), int)
    # One comparison for all components: which of its own choices each number is.
    component = np.repeat(np.arange(len(counts)), counts)
    choice = np.concatenate([start + np.arange(count) for count, start in zip(counts, starts, strict=True)])
    taken = jnp.sum(sent[:, component] == choice, 0).astype(jnp.float32)
    edges = [(float(start) - 0.5, float(start) + count - 0.5) for count, start in zip(counts, starts, strict=True)]
    parts = np.split(np.arange(len(choice)), np.cumsum(counts)[:-1])
    bars = [
        piece for edge, part in zip(edges, parts, strict=True) for piece in (np.array(edge, np.float32), taken[part])
    ]
    several = len(counts) > 1
    names = tuple(f"roll/actions/hist/{i}" if several else "roll/actions/hist" for i in range(len(counts)))
    labels = [f"{i}.{j}" if several else f"{j}" for i, count in enumerate(counts) for j in range(count)]
    told = tuple(f"roll/action_share/{label}" for label in labels)
    shares = [(told, taken / len(sent))] if len(labels) <= MOST_SHARES else []
    return Choices(names, tuple(counts), jnp.concatenate(bars), shares)


def action_vectors(space: Any, action: Array) -> dict[str, Array]:
    """Samples of continuous actions, of each component where there are not too many."""
    sent = _sent(space, action)
    if not 1 < sent.shape[1] <= MOST_COMPONENTS:
        return {"roll/actions/hist": sampled(sent)}
    return {f"roll/actions/hist/{i}": sampled(sent[:, i]) for i in range(sent.shape[1])}
