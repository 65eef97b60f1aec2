"""Training state: everything a run needs to continue, as one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax

from gymlab.core.types import Array, Decision, Tree, VecStep
from gymlab.envs.transform import Transform
from gymlab.experience.replay_buffer import ReplayBuffer
from gymlab.networks.normalizer import NormalizerState
from gymlab.training.episodes import Episodes
from gymlab.training.named_tensors import Tensors, split_tensors, to_tensors

Act = Callable[[Tree, Tree, Tree, Array, Array | bool], Decision]  # (policy, obs, carry, key, greedy)

# Streams of the transforms, far from the counters at which an env draws from the same key.
_APPLY_STREAM = 1 << 30
_ACT_STREAM = 1 << 31


class GroupState(NamedTuple):
    """One env group between two rollouts."""

    env: Tree  # the engine's own state; () for host envs, whose state is taken when a checkpoint is
    transforms: tuple[Tree, ...]
    obs: Tree  # (N, *obs) what to act on next
    fresh: Array | tuple[()]  # (N,) where `obs` starts an episode; () where it is left out
    carry: Tree  # (N, ...) the policy's, not yet reset where `fresh`
    episodes: Episodes
    discounted: Array  # (N,) running discounted return, for reward scaling


def step_keys(key: Array, n_steps: int) -> jax.Array:
    """(T, 2) keys: one to act and one for the env at each step. Both collectors draw from these."""
    return jax.random.split(key, (n_steps, 2))


def transform_action(
    transforms: tuple[Transform, ...], states: tuple[Tree, ...], action: Array, key: Array | None
) -> tuple[tuple[Tree, ...], Array]:
    """Send an action to the env through all transforms, outermost first."""
    after = list(states)
    for index in reversed(range(len(transforms))):
        transform = transforms[index]
        if hasattr(transform, "act"):
            after[index], action = transform.act(states[index], action, _own(transform, key, _ACT_STREAM + index))
    return tuple(after), action


def apply_transforms(
    transforms: tuple[Transform, ...], states: tuple[Tree, ...], step: VecStep, key: Array | None
) -> tuple[tuple[Tree, ...], VecStep]:
    """Run a step through all transforms, innermost first."""
    after = []
    for index, (transform, state) in enumerate(zip(transforms, states, strict=True)):
        state, step = transform.apply(state, step, _own(transform, key, _APPLY_STREAM + index))
        after.append(state)
    return tuple(after), step


def _own(transform: Transform, key: Array | None, stream: int) -> Array | None:
    return jax.random.fold_in(key, stream) if key is not None and transform.random else None


TaskStatistics = NormalizerState | tuple[NormalizerState, ...]  # a tuple where a run has several tasks


class Policy(NamedTuple):
    """All that acting needs: never the optimiser."""

    weights: Tree
    normaliser: TaskStatistics

    def separate(self) -> Policy:
        """The same arrays, which cannot be changed, in containers of its own."""
        policy: Policy = jax.tree.map(lambda leaf: leaf, self)
        return policy


class SkippedUpdates(NamedTuple):
    """Counts of updates that were not applied because they were not finite."""

    total: Array  # ()
    in_a_row: Array  # ()


class TrainState(NamedTuple):
    """Arrays only. The clocks travel beside it, as whole numbers."""

    algorithm: Tree
    normaliser: TaskStatistics
    groups: tuple[GroupState, ...]
    key: Array  # every random stream of the run is derived from this and from the update's number
    skipped: SkippedUpdates | None = None  # counted only under `on_nan: skip`
    experience: tuple[ReplayBuffer, ...] = ()  # of each group, where the algorithm learns from replay


def match_skipped_updates(state: TrainState, tensors: Tensors) -> Tensors:
    """The tensors with the `skipped` counts exactly where `state` has them: a resumed run may have another `on_nan`."""
    own = {f"skipped/{name}": tensor for name, tensor in to_tensors(state.skipped).items()}
    (saved,), rest = split_tensors(tensors, ["skipped/"])
    return tensors if bool(own) == bool(saved) else rest | own
