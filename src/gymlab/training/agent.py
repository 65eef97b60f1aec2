"""The agent: an algorithm and its normaliser, as the traced functions `act` and `learn`."""

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

MAX_SKIPPED_IN_A_ROW = 10  # consecutive skipped updates before the run fails
CHECKED = ("obs", "last_obs", "successor", "action", "log_prob", "reward", "train_reward", "components")


class UpdateResult(NamedTuple):
    """The result of one update."""

    state: TrainState
    metrics: Metrics
    fault: Array  # () bool: not finite, so the result must be discarded; see also `Agent.is_finite`
    gradient_steps: Array  # () int32: those that count, none where the update was skipped
    histograms: Array | None = None  # packed by `Agent.layout`; zeros in an update that did not measure them


class Agent:
    """The functions that both collectors and evaluation share. They are traced, never called directly."""

    layout = HistogramLayout()  # of `UpdateResult.histograms`, known once traced

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
        """The counts of skipped updates in a new state; None where updates are not skipped."""
        return SkippedUpdates(jnp.int32(0), jnp.int32(0)) if self._skips else None

    def act(self, policy: Policy, obs: Tree, carry: Tree, key: Array, greedy: Array | bool) -> Decision:
        normalized = self.normalising.observe(policy.normaliser, obs)
        return self.algorithm.act(policy.weights, normalized, carry, key, greedy)

    def normalize(self, state: TrainState, rollouts: tuple[Rollout, ...]) -> tuple[Rollout, ...]:
        """The rollouts normalised with the statistics they were collected with."""
        return tuple(self.normalising.normalize_rollout(state.normaliser, rollout) for rollout in rollouts)

    def is_finite(self, state: TrainState) -> Array:
        """Whether the policy is finite; a NaN in the optimiser reaches the weights too.

        Checked once per compiled call: once per update would slow down updates as short as A2C's.
        """
        return all_finite(self.policy(state))

    def learn(
        self, state: TrainState, rollouts: tuple[Rollout, ...], hp: Hyper, measure: Array | None = None
    ) -> UpdateResult:
        """One update of the algorithm, then of the normaliser. `measure`: whether to take histograms; None: never."""
        key = stream_key(state.key, "update", jnp.asarray(hp["update"], jnp.uint32))
        learnt, metrics = self.algorithm.update(state.algorithm, self.normalize(state, rollouts), hp, key)
        metrics = metrics if self._full else basic_metrics(metrics)
        steps = jnp.asarray(metrics.get("opt/gradient_steps", 0), jnp.int32)
        inputs = [[getattr(rollout, name) for name in CHECKED] for rollout in rollouts]
        if self._skips:
            rollouts = tuple(map(_zero_nonfinite_rewards, rollouts))
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
        histograms = None if measure is None or not self._full else self._measure(measure, state, after, rollouts)
        finite = all_finite((inputs, _losses(metrics)))
        if not self._skips:
            return UpdateResult(after, metrics | measured, ~finite, steps, histograms)
        finite &= self.is_finite(after)
        kept = self._keep_or_skip(state, after, finite)
        assert kept.skipped is not None
        metrics = {name: jnp.where(finite, value, jnp.nan) for name, value in metrics.items()}
        metrics |= measured | {"sys/skipped_updates": kept.skipped.total}
        # Skipping cannot help after too many in a row, nor where what the next rollout starts from is not finite.
        rest = [(group.carry, group.episodes, group.discounted) for group in groups]
        lost = ~all_finite((rest, [rollout.last_obs for rollout in rollouts]))
        fault = ~finite & (lost | (kept.skipped.in_a_row >= MAX_SKIPPED_IN_A_ROW))
        return UpdateResult(kept, metrics, fault, jnp.where(finite, steps, 0), histograms)

    def _measure(self, measure: Array, before: TrainState, after: TrainState, rollouts: tuple[Rollout, ...]) -> Array:
        """The packed histograms of an update's first env group; zeros where `measure` is False."""

        def measured() -> Array:
            subject = MeasuredUpdate(
                rollouts[0],
                lambda obs: self.normalising.observe(before.normaliser, obs),
                before.algorithm,
                after.algorithm,
                after.groups[0].episodes,
            )
            packed, self.layout = measure_update(self.algorithm.spaces, self.algorithm, subject)
            return packed

        shape = jax.eval_shape(measured)
        return lax.cond(measure, measured, lambda: jnp.zeros(shape.shape, shape.dtype))

    def _keep_or_skip(self, before: TrainState, after: TrainState, finite: Array) -> TrainState:
        """The state after an update or, where that is not finite, the learnt state before it with the envs' after."""
        assert before.skipped is not None
        # Stored parts of open episodes lack the steps of this rollout.
        old = (self.algorithm.forget_open_episodes(before.algorithm), before.normaliser)
        new = (after.algorithm, after.normaliser)
        algorithm, normaliser = jax.tree.map(lambda x, y: jnp.where(finite, x, y), new, old)
        skipped = SkippedUpdates(before.skipped.total + ~finite, jnp.where(finite, 0, before.skipped.in_a_row + 1))
        return after._replace(algorithm=algorithm, normaliser=normaliser, skipped=skipped)


def all_finite(tree: Tree) -> Array:
    """Whether every float in the tree is finite."""
    floats = [leaf.ravel() for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    # One reduction over everything: many small ones cost more than the copy.
    return jnp.isfinite(jnp.concatenate(floats)).all() if floats else jnp.bool_(True)


def _losses(metrics: Metrics) -> Tree:
    """The losses; where there was no gradient step their means are NaN and count as 0."""
    none = metrics.get("opt/gradient_steps", jnp.int32(1)) == 0
    return [jnp.where(none, 0.0, metrics[name]) for name in ("opt/loss", "opt/grad_norm") if name in metrics]


def _zero_nonfinite_rewards(rollout: Rollout) -> Rollout:
    """A non-finite reward counts as 0 in a run that skips updates."""
    reward, train_reward = (jnp.where(jnp.isfinite(x), x, 0.0) for x in (rollout.reward, rollout.train_reward))
    return rollout._replace(reward=reward, train_reward=train_reward)


def window_reached(metrics: Metrics, threshold: Array) -> Array:
    """Whether a full window of training episodes has reached the mean return `threshold`."""
    return (metrics["roll/return_window"] >= episodes.WINDOW) & (metrics["roll/return_mean"] >= threshold)
