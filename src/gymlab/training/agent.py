"""The agent: an algorithm and the normalisers of its tasks, as the traced functions `act` and `learn`."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.algorithms.base import Algorithm, Hyper, Metrics
from gymlab.core.jax_keys import run_key, stream_key
from gymlab.core.types import Array, Decision, Rollout, Tree
from gymlab.experience.replay_buffer import ReplayBuffer, append_rollout, drop_newest, empty_buffer, sample_sequences
from gymlab.networks.normalizer import Normalizer, NormalizerState
from gymlab.training import episodes
from gymlab.training.invariants import rollout_fault
from gymlab.training.state import Act, GroupState, Policy, SkippedUpdates, TaskStatistics, TrainState
from gymlab.training.update_histograms import HistogramLayout
from gymlab.training.update_stats import (
    OF_WEIGHTS,
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
        self,
        algorithm: Algorithm,
        normalising: Normalizer,
        *,
        skips: bool = False,
        statistics: str = "basic",
        tasks: tuple[str, ...] = ("",),
    ) -> None:
        """`tasks` are the names of the env groups, in their order. Where there are several, each has its own
        normaliser statistics, and its metrics end in `@NAME`."""
        self.algorithm = algorithm
        self.normalising = normalising
        self.tasks = tasks
        self._skips = skips  # `on_nan: skip`
        self._full = statistics == "full"

    def policy(self, state: TrainState) -> Policy:
        return Policy(self.algorithm.weights(state.algorithm), state.normaliser)

    def no_skips(self) -> SkippedUpdates | None:
        """The counts of skipped updates in a new state; None where updates are not skipped."""
        return SkippedUpdates(jnp.int32(0), jnp.int32(0)) if self._skips else None

    def initial_normaliser(self) -> TaskStatistics:
        return self._joined([self.normalising.init() for _ in self.tasks])

    def statistics_of(self, normaliser: TaskStatistics, task: int) -> NormalizerState:
        """A task's statistics."""
        return normaliser if len(self.tasks) == 1 else normaliser[task]  # type: ignore[return-value]

    def _joined(self, statistics: list[NormalizerState]) -> TaskStatistics:
        return statistics[0] if len(self.tasks) == 1 else tuple(statistics)

    def act(self, policy: Policy, obs: Tree, carry: Tree, key: Array, greedy: Array | bool, task: int = 0) -> Decision:
        return self.algorithm.act(policy.weights, self.observe(policy, obs, task), carry, key, greedy)

    def observe(self, policy: Policy, obs: Tree, task: int = 0) -> Tree:
        """Observations of a task, normalised."""
        return self.normalising.observe(self.statistics_of(policy.normaliser, task), obs)

    def actor(self, task: int) -> Act:
        """`act` on the observations of one task."""
        return partial(self.act, task=task)

    def normalize(self, state: TrainState, rollouts: tuple[Rollout, ...]) -> tuple[Rollout, ...]:
        """Rollouts, one per task, normalised with the state's statistics."""
        return tuple(
            self.normalising.normalize_rollout(self.statistics_of(state.normaliser, task), rollout)
            for task, rollout in enumerate(rollouts)
        )

    def is_finite(self, state: TrainState) -> Array:
        """Whether the policy is finite; a NaN in the optimiser reaches the weights too.

        Checked once per compiled call: once per update would slow down updates as short as A2C's.
        """
        return all_finite(self.policy(state))

    def initial_experience(self, groups: tuple[GroupState, ...], n_steps: tuple[int, ...]) -> tuple[ReplayBuffer, ...]:
        """The empty replay buffer of each group; () for an algorithm that learns from rollouts."""
        if self.algorithm.learns_from == "rollout":
            return ()
        capacity = self.algorithm.replay_plan().capacity
        sizes = tuple(len(group.fresh) for group in groups)
        policy = jax.eval_shape(
            lambda key: Policy(self.algorithm.weights(self.algorithm.init(key, sizes)), self.initial_normaliser()),
            run_key(0),
        )
        buffers = []
        for group, steps in zip(groups, n_steps, strict=True):
            extras = jax.eval_shape(self.act, policy, group.obs, group.carry, run_key(0), False).extras
            rounded = -(-capacity // steps) * steps
            buffers.append(empty_buffer(self.algorithm.spaces, extras, len(group.fresh), rounded))
        return tuple(buffers)

    def _experience(
        self, state: TrainState, rollouts: tuple[Rollout, ...], key: Array, sound: Array
    ) -> tuple[tuple[ReplayBuffer, ...], tuple[Rollout, ...]]:
        """The buffers after these rollouts, and what the algorithm learns from, normalised."""
        if self.algorithm.learns_from == "rollout":
            return (), self.normalize(state, rollouts)
        plan = self.algorithm.replay_plan()
        buffers = tuple(append_rollout(*pair, sound) for pair in zip(state.experience, rollouts, strict=True))
        keys = jax.random.split(stream_key(key, "replay"), len(buffers))
        drawn = tuple(
            sample_sequences(buffer, own, plan.minibatches, plan.sequences, plan.length)
            for buffer, own in zip(buffers, keys, strict=True)
        )
        return buffers, self.normalize(state, drawn)

    def _update(
        self, state: Tree, rollouts: tuple[Rollout, ...], experience: tuple[Rollout, ...], hp: Hyper, key: Array
    ) -> tuple[Tree, Metrics]:
        """The algorithm's update or, before it is learning, its warm-up, which has no metrics."""
        learning = self.algorithm.is_learning(hp)
        if learning is True:
            return self.algorithm.update(state, experience, hp, key)

        def update() -> tuple[Tree, Metrics]:
            return self.algorithm.update(state, experience, hp, key)

        def warm_up() -> tuple[Tree, Metrics]:
            after = self.algorithm.warm_up(state, rollouts, hp, key)
            return after, jax.tree.map(_not_measured, jax.eval_shape(update)[1])

        return lax.cond(learning, update, warm_up)

    def learn(
        self, state: TrainState, rollouts: tuple[Rollout, ...], hp: Hyper, measure: Array | None = None
    ) -> UpdateResult:
        """One update of the algorithm, then of the normaliser. `measure`: whether to take histograms; None: never."""
        for rollout in rollouts:
            assert not (broken := rollout_fault(rollout)), broken
        key = stream_key(state.key, "update", jnp.asarray(hp["update"], jnp.uint32))
        inputs = [[getattr(rollout, name) for name in CHECKED] for rollout in rollouts]
        replayed = self.algorithm.learns_from == "replay"
        sound = all_finite(inputs) if replayed else jnp.bool_(True)
        buffers, experience = self._experience(state, rollouts, key, sound)
        seen = self.normalize(state, rollouts) if replayed else experience
        learnt, metrics = self._update(state.algorithm, seen, experience, hp, key)
        metrics = metrics if self._full else basic_metrics(metrics)
        steps = jnp.asarray(metrics.get("opt/gradient_steps", 0), jnp.int32)
        if self._skips:
            rollouts = tuple(map(_zero_nonfinite_rewards, rollouts))
        groups, normaliser, measured = self._track(state, rollouts, hp)
        after = TrainState(learnt, normaliser, groups, state.key, state.skipped, buffers)
        histograms = None if measure is None or not self._full else self._measure(measure, state, after, rollouts)
        finite = all_finite((inputs, _losses(metrics)))
        if self._skips or replayed:
            finite &= self.is_finite(after)
        if not self._skips:
            # A discarded update's rollout is collected again, if the run goes on.
            length = len(rollouts[0].reward)
            after = after._replace(experience=tuple(drop_newest(b, length, sound & ~finite) for b in buffers))
            return UpdateResult(after, metrics | measured, ~finite, steps, histograms)
        kept = self._keep_or_skip(state, after, finite)
        assert kept.skipped is not None
        metrics = {name: jnp.where(finite, value, jnp.nan) for name, value in metrics.items()}
        metrics |= measured | {"sys/skipped_updates": kept.skipped.total}
        # Skipping cannot help after too many in a row, nor where what the next rollout starts from is not finite.
        rest = [(group.carry, group.episodes, group.discounted) for group in groups]
        lost = ~all_finite((rest, [rollout.last_obs for rollout in rollouts]))
        fault = ~finite & (lost | (kept.skipped.in_a_row >= MAX_SKIPPED_IN_A_ROW))
        return UpdateResult(kept, metrics, fault, jnp.where(finite, steps, 0), histograms)

    def _track(
        self, state: TrainState, rollouts: tuple[Rollout, ...], hp: Hyper
    ) -> tuple[tuple[GroupState, ...], TaskStatistics, Metrics]:
        """The groups with their episodes and the statistics of normalising after raw rollouts, and their metrics."""
        measured: Metrics = {}
        statistics = []
        groups = []
        for task, (group, rollout) in enumerate(zip(state.groups, rollouts, strict=True)):
            before = self.statistics_of(state.normaliser, task)
            moved, discounted = self.normalising.learn(before, rollout, group.discounted, hp["gamma"])
            tracked, roll = episodes.track(group.episodes, rollout.reward, rollout.fresh)
            found = roll | reward_statistics(rollout, full=self._full)
            if self._full:
                found |= action_statistics(self.algorithm.spaces.action, rollout) | reward_parts(rollout)
            measured |= {self._of_task(name, task): value for name, value in found.items()}
            statistics.append(moved)
            groups.append(group._replace(episodes=tracked, discounted=discounted))
        if len(self.tasks) > 1:
            ended = [measured[self._of_task("roll/episodes", i)] for i in range(len(self.tasks))]
            measured["roll/episodes"] = cast("Array", sum(ended))
        return tuple(groups), self._joined(statistics), measured

    def _of_task(self, name: str, task: int) -> str:
        """A metric's name among those of several tasks."""
        return name if len(self.tasks) == 1 else f"{name}@{self.tasks[task]}"

    def window_reached(self, metrics: Metrics, threshold: Array) -> Array:
        """Whether each task has a full window of training episodes with at least this mean return."""
        reached = jnp.bool_(True)
        for task in range(len(self.tasks)):
            full = metrics[self._of_task("roll/return_window", task)] >= episodes.WINDOW
            reached &= full & (metrics[self._of_task("roll/return_mean", task)] >= threshold)
        return reached

    def _measure(self, measure: Array, before: TrainState, after: TrainState, rollouts: tuple[Rollout, ...]) -> Array:
        """The packed histograms of an update; zeros where `measure` is False."""

        def measured() -> Array:
            values, bins, names, histograms = [], [], [], []
            for task, rollout in enumerate(rollouts):
                statistics = self.statistics_of(before.normaliser, task)
                subject = MeasuredUpdate(
                    rollout,
                    partial(self.normalising.observe, statistics),
                    before.algorithm,
                    after.algorithm,
                    after.groups[task].episodes,
                    weights=task == 0,
                )
                packed, layout = measure_update(self.algorithm.spaces, self.algorithm, subject)
                values.append(packed[: len(layout.values)])
                bins.append(packed[len(layout.values) :])
                names += [name if name.startswith(OF_WEIGHTS) else self._of_task(name, task) for name in layout.values]
                histograms += [
                    (name if name.startswith(OF_WEIGHTS) else self._of_task(name, task), count)
                    for name, count in layout.histograms
                ]
            self.layout = HistogramLayout(tuple(names), tuple(histograms))
            return packed if len(rollouts) == 1 else jnp.concatenate([*values, *bins])

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


def _not_measured(shape: Array) -> Array:
    """The metrics of an update that did not learn: NaN, and counts 0."""
    floating = jnp.issubdtype(shape.dtype, jnp.floating)
    return jnp.full(shape.shape, jnp.nan if floating else 0, shape.dtype)
