"""An algorithm with the normalising around it: how a run acts, and how it learns once experience is in."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.algorithms.base import Algorithm, Hyper, Metrics
from gymlab.core.jax_keys import stream_key
from gymlab.core.types import Array, Decision, Rollout, Tree
from gymlab.networks.normalizer import Normalizer
from gymlab.training import episodes
from gymlab.training.state import Policy, SkippedUpdates, TrainState
from gymlab.training.update_histograms import HistogramLayout
from gymlab.training.update_stats import (
    MeasuredUpdate,
    action_statistics,
    basic_metrics,
    measure_update,
    reward_parts,
    reward_statistics,
)

MAX_SKIPPED_IN_A_ROW = 10  # updates in a row; after that something is wrong for good
CHECKED = ("obs", "last_obs", "successor", "action", "log_prob", "reward", "train_reward", "components")


class UpdateResult(NamedTuple):
    """What one update gave."""

    state: TrainState
    metrics: Metrics
    fault: Array  # () bool: numbers went bad and nothing of this may be kept; see also `Agent.sound`
    look: Array | None = None  # distributions by `Agent.layout`; zeros in an update that did not look


class Agent:
    """The functions both collectors and evaluation share. They are traced, never run by themselves."""

    layout = HistogramLayout()  # of `Learnt.look`, known once that was traced

    def __init__(
        self, algorithm: Algorithm, normalising: Normalizer, *, skips: bool = False, statistics: str = "basic"
    ) -> None:
        self.algorithm = algorithm
        self.normalising = normalising
        self._skips = skips  # `on_nan: skip`
        self._full = statistics == "full"

    def policy(self, state: TrainState) -> Policy:
        return Policy(self.algorithm.weights(state.algorithm), state.normaliser)

    def no_skips(self) -> SkippedUpdates | None:
        """What a new state counts."""
        return SkippedUpdates(jnp.int32(0), jnp.int32(0)) if self._skips else None

    def act(self, policy: Policy, obs: Tree, carry: Tree, key: Array, greedy: Array | bool) -> Decision:
        seen = self.normalising.observe(policy.normaliser, obs)
        return self.algorithm.act(policy.weights, seen, carry, key, greedy)

    def seen(self, state: TrainState, rollouts: tuple[Rollout, ...]) -> tuple[Rollout, ...]:
        """Rollouts as the algorithm sees them: under the statistics they were collected with."""
        return tuple(self.normalising.seen(state.normaliser, rollout) for rollout in rollouts)

    def sound(self, state: TrainState) -> Array:
        """Whether the policy is made of numbers. An optimiser that goes bad takes the weights with it.

        Asked once per compiled call: in an update as short as A2C's even this would be felt.
        """
        return all_finite(self.policy(state))

    def learn(
        self, state: TrainState, rollouts: tuple[Rollout, ...], hp: Hyper, update: Array, look: Array | None = None
    ) -> UpdateResult:
        """One update of the algorithm; then the statistics move on. `look` says whether distributions are taken."""
        key = stream_key(state.key, "update", update)
        learnt, metrics = self.algorithm.update(state.algorithm, self.seen(state, rollouts), hp, key)
        metrics = metrics if self._full else basic_metrics(metrics)
        given = [[getattr(rollout, name) for name in CHECKED] for rollout in rollouts]
        if self._skips:
            rollouts = tuple(map(_without_bad_rewards, rollouts))
        measured: Metrics = {}
        normaliser = state.normaliser
        groups = []
        for group, rollout in zip(state.groups, rollouts, strict=True):
            normaliser, discounted = self.normalising.learn(normaliser, rollout, group.discounted, hp["gamma"])
            tracked, roll = episodes.track(group.episodes, rollout.reward, rollout.fresh)
            measured |= roll | reward_statistics(rollout, full=self._full)
            if self._full:
                measured |= action_statistics(self.algorithm.spaces.action, rollout) | reward_parts(rollout)
            groups.append(group._replace(episodes=tracked, discounted=discounted))
        after = TrainState(learnt, normaliser, tuple(groups), state.key, state.skipped)
        seen = None if look is None or not self._full else self._look(look, state, after, rollouts)
        sound = all_finite((given, _losses(metrics)))
        if not self._skips:
            return UpdateResult(after, metrics | measured, ~sound, seen)
        sound &= self.sound(after)
        kept = self._kept_or_skipped(state, after, sound)
        assert kept.skipped is not None
        metrics = {name: jnp.where(sound, value, jnp.nan) for name, value in metrics.items()}
        metrics |= measured | {"sys/skipped_updates": kept.skipped.total}
        # Skipping does not help after too many in a row, nor where there is nothing sound to go on from.
        rest = [(group.carry, group.episodes, group.discounted) for group in groups]
        lost = ~all_finite((rest, [rollout.last_obs for rollout in rollouts]))
        return UpdateResult(kept, metrics, ~sound & (lost | (kept.skipped.in_a_row >= MAX_SKIPPED_IN_A_ROW)), seen)

    def _look(self, look: Array, before: TrainState, after: TrainState, rollouts: tuple[Rollout, ...]) -> Array:
        """The distributions of an update, of its first env group."""

        def taken() -> Array:
            subject = MeasuredUpdate(
                rollouts[0],
                lambda obs: self.normalising.observe(before.normaliser, obs),
                before.algorithm,
                after.algorithm,
                after.groups[0].episodes,
            )
            packed, self.layout = measure_update(self.algorithm.spaces, self.algorithm, subject)
            return packed

        shape = jax.eval_shape(taken)
        return lax.cond(look, taken, lambda: jnp.zeros(shape.shape, shape.dtype))

    def _kept_or_skipped(self, before: TrainState, after: TrainState, sound: Array) -> TrainState:
        """The state after an update or, where that is not sound, the one before it with the envs moved on."""
        assert before.skipped is not None
        # What was kept of open episodes lacks the steps of this rollout.
        old = (self.algorithm.forget_open_episodes(before.algorithm), before.normaliser)
        new = (after.algorithm, after.normaliser)
        algorithm, normaliser = jax.tree.map(lambda x, y: jnp.where(sound, x, y), new, old)
        skipped = SkippedUpdates(before.skipped.total + ~sound, jnp.where(sound, 0, before.skipped.in_a_row + 1))
        return after._replace(algorithm=algorithm, normaliser=normaliser, skipped=skipped)


def all_finite(tree: Tree) -> Array:
    """Whether every float in the tree is a number."""
    floats = [leaf.ravel() for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    # One reduction over everything: many small ones cost more than the copy.
    return jnp.isfinite(jnp.concatenate(floats)).all() if floats else jnp.bool_(True)


def _losses(metrics: Metrics) -> Tree:
    """The losses; means over no gradient step at all are NaN, and nothing has gone wrong."""
    none = metrics.get("opt/gradient_steps", jnp.int32(1)) == 0
    return [jnp.where(none, 0.0, metrics[name]) for name in ("opt/loss", "opt/grad_norm") if name in metrics]


def _without_bad_rewards(rollout: Rollout) -> Rollout:
    """A reward that is no number counts as none in a run that goes on regardless."""
    reward, train_reward = (jnp.where(jnp.isfinite(x), x, 0.0) for x in (rollout.reward, rollout.train_reward))
    return rollout._replace(reward=reward, train_reward=train_reward)


def window_reached(metrics: Metrics, threshold: Array) -> Array:
    """Whether a full window of training episodes has the mean return asked for."""
    return (metrics["roll/return_window"] >= episodes.WINDOW) & (metrics["roll/return_mean"] >= threshold)
