"""Coverage study: how much the states and transitions of parallel envs overlap, rollout by rollout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from gymlab.core.clock import Clock
from gymlab.core.types import Masked, Tree, VecStep
from gymlab.recipes.resolve import amend
from gymlab.recipes.schema import Recipe
from gymlab.session.build import build

BINS = 20  # per feature
MAX_BINNED = 16  # features; states with more are compared without binning
_SAMPLED = 128  # states of each env whose nearest neighbours are computed
_ENVS_COMPARED = 16
_SHADES = " .:-=+*#%@"


class Overlap(NamedTuple):
    """The figures of one rollout. Cells are bins of the state; shares lie in 0..1."""

    rollout: int
    states: int  # cells that all envs together visited
    of_one_env: float  # cells that one env visited, mean over envs
    worth: float  # states / of_one_env: 1 if all envs visit the same cells, n_envs if no cell is shared
    shared: float  # share of the cells that more than one env visited
    jaccard: float  # mean over pairs of envs: cells of both / cells of either
    new_transitions: float  # share of the steps whose (cell, action, next cell) no other env made
    nearest_own: float  # mean distance from a state to the nearest other one of the same env, in stds of the features
    nearest_other: float  # and to the nearest one of another env
    states_so_far: int  # cells visited since the study began


class Coverage(NamedTuple):
    n_envs: int
    n_steps: int
    overlaps: list[Overlap]
    visits: np.ndarray | None  # (rows, columns) of visits, if states have two features


class RolloutTransitions(NamedTuple):
    """The transitions of a rollout, each field (T, N, features)."""

    before: np.ndarray
    action: np.ndarray
    after: np.ndarray


def study(recipe: Recipe, *, updates: int, seed: int = 0) -> Iterator[Coverage]:
    """Train for some updates and yield the coverage so far after each of them."""
    recorder = _TransitionRecorder()
    host = amend(recipe, ["engine=gymnasium", "vectorization=sync", "metrics.statistics=basic"])
    parts = build(host, seed, on_step=recorder)
    overlaps: list[Overlap] = []
    rollouts: list[RolloutTransitions] = []
    try:
        state = parts.program.start(seed)
        for update in range(updates):
            clock = parts.plan.after(Clock(), update)
            state = parts.program.advance(state, clock, parts.plan.scheduled(clock, 1), float("inf")).state
            rollouts.append(recorder.take())
            grid = StateGrid(np.concatenate([r.before.reshape(-1, r.before.shape[-1]) for r in rollouts]))
            so_far = len(set().union(*(set(grid.cells(r.before).ravel()) for r in rollouts)))
            overlaps.append(overlap(update, rollouts[-1], grid, so_far))
            yield Coverage(host.n_envs, host.n_steps, list(overlaps), grid.visits)
    finally:
        parts.program.close()


class _TransitionRecorder:
    """Records the transitions of a rollout from the collector's steps."""

    def __init__(self) -> None:
        self._last: np.ndarray | None = None
        self._steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def __call__(self, action: np.ndarray, step: VecStep) -> None:
        if self._last is not None:  # the state before the first action is not part of any step
            flat = np.asarray(action, np.float64).reshape(len(action), -1)
            self._steps.append((self._last, flat, features(step.successor)))
        self._last = features(step.obs)

    def take(self) -> RolloutTransitions:
        """The transitions since the last call."""
        steps = self._steps
        self._steps = []
        return RolloutTransitions(*(np.stack(parts) for parts in zip(*steps, strict=True)))


def features(obs: Tree) -> np.ndarray:
    """Observations of all envs as (N, features)."""
    leaves = jax.tree.leaves(obs.obs if isinstance(obs, Masked) else obs)
    return np.concatenate([np.array(leaf, np.float64).reshape(len(leaf), -1) for leaf in leaves], axis=1)


class StateGrid:
    """Bins states into cells over their range. Integer states and those with many features are not binned."""

    def __init__(self, states: np.ndarray) -> None:
        self._low = states.min(0)
        high = states.max(0)
        self._width = np.where(high > self._low, high - self._low, 1.0)
        self._exact = states.shape[1] > MAX_BINNED or bool((states == np.round(states)).all())
        self.visits = self._count_visits(states)

    def cells(self, states: np.ndarray) -> np.ndarray:
        """(T, N, features) as (T, N) keys."""
        binned = states if self._exact else self._binned(states)
        keys = [row.tobytes() for row in np.ascontiguousarray(binned).reshape(-1, binned.shape[-1])]
        return np.array(keys, object).reshape(states.shape[:-1])

    def _binned(self, states: np.ndarray) -> np.ndarray:
        return np.minimum((states - self._low) / self._width * BINS, BINS - 1).astype(np.int64)

    def _count_visits(self, states: np.ndarray) -> np.ndarray | None:
        if states.shape[1] != 2 or self._exact:
            return None
        columns, rows = self._binned(states).T
        visits = np.zeros((BINS, BINS), np.int64)
        np.add.at(visits, (BINS - 1 - rows, columns), 1)
        return visits


def overlap(rollout: int, transitions: RolloutTransitions, grid: StateGrid, so_far: int) -> Overlap:
    """Compare the envs of one rollout."""
    cells = grid.cells(transitions.before)
    after = grid.cells(transitions.after)
    n = cells.shape[1]
    visited = [set(cells[:, env]) for env in range(n)]
    everything = set().union(*visited)
    of_one = float(np.mean([len(own) for own in visited]))
    counts = np.array([sum(cell in own for own in visited) for cell in everything])
    compared = visited[:_ENVS_COMPARED]
    pairs = [len(a & b) / len(a | b) for i, a in enumerate(compared) for b in compared[:i]]
    return Overlap(
        rollout,
        len(everything),
        of_one,
        len(everything) / of_one,
        float((counts > 1).mean()),
        float(np.mean(pairs)) if pairs else 0.0,
        _new_transitions(cells, transitions.action, after),
        *_nearest(transitions.before),
        so_far,
    )


def _new_transitions(cells: np.ndarray, actions: np.ndarray, after: np.ndarray) -> float:
    made_by: dict[tuple[np.ndarray, bytes, np.ndarray], set[int]] = {}
    steps = [
        (env, (cells[t, env], actions[t, env].round(1).tobytes(), after[t, env])) for t, env in np.ndindex(cells.shape)
    ]
    for env, key in steps:
        made_by.setdefault(key, set()).add(env)
    return float(np.mean([len(made_by[key]) == 1 for _, key in steps]))


def _nearest(states: np.ndarray) -> tuple[float, float]:
    """Mean distances from a state to the nearest one of the same env and of another env; NaN with one env."""
    steps, n = states.shape[:2]
    picked = np.linspace(0, steps - 1, min(steps, _SAMPLED)).astype(int)
    scaled = states[picked, : min(n, _ENVS_COMPARED)] / np.maximum(states.reshape(-1, states.shape[-1]).std(0), 1e-12)
    own = []
    other = []
    for env in range(scaled.shape[1]):
        mine = scaled[:, env]
        theirs = np.delete(scaled, env, axis=1)
        inner = _distances(mine, mine)
        np.fill_diagonal(inner, np.inf)
        own.append(inner.min(1).mean())
        if theirs.size:
            other.append(_distances(mine, theirs.reshape(-1, theirs.shape[-1])).min(1).mean())
    return float(np.mean(own)), float(np.mean(other)) if other else float("nan")


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T, 0.0))


def format_visits(visits: np.ndarray) -> list[str]:
    """Visits as a heat map of characters, the second feature upwards."""
    shade = np.ceil(np.log1p(visits) / np.log1p(max(1, visits.max())) * (len(_SHADES) - 1)).astype(int)
    return ["".join(_SHADES[level] * 2 for level in row) for row in shade]
