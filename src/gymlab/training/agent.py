"""An algorithm with the normalising around it: how a run acts, and how it learns once experience is in."""

from __future__ import annotations

import jax.numpy as jnp

from gymlab.algorithms.base import Algorithm, Hyper, Metrics
from gymlab.core.keys import stream_key
from gymlab.core.types import Array, Decision, Rollout, Tree
from gymlab.policies.normaliser import Normalising
from gymlab.rollout import episodes
from gymlab.training.state import Policy, TrainState


class Agent:
    """The functions both collectors and evaluation share. They are traced, never run by themselves."""

    def __init__(self, algorithm: Algorithm, normalising: Normalising) -> None:
        self.algorithm = algorithm
        self.normalising = normalising

    def policy(self, state: TrainState) -> Policy:
        return Policy(self.algorithm.weights(state.algorithm), state.normaliser)

    def act(self, policy: Policy, obs: Tree, carry: Tree, key: Array, greedy: Array | bool) -> Decision:
        seen = self.normalising.observe(policy.normaliser, obs)
        return self.algorithm.act(policy.weights, seen, carry, key, greedy)

    def learn(
        self, state: TrainState, rollouts: tuple[Rollout, ...], hp: Hyper, update: Array
    ) -> tuple[TrainState, Metrics]:
        """One update: the algorithm sees rollouts under the statistics they were collected with, which then move on."""
        seen = tuple(self.normalising.seen(state.normaliser, rollout) for rollout in rollouts)
        key = stream_key(state.key, "update", update)
        learnt, metrics = self.algorithm.update(state.algorithm, seen, hp, key)
        normaliser, groups = state.normaliser, []
        for group, rollout in zip(state.groups, rollouts, strict=True):
            normaliser, discounted = self.normalising.learn(normaliser, rollout, group.discounted, hp["gamma"])
            tracked, roll = episodes.track(group.episodes, rollout.reward, rollout.fresh)
            metrics |= roll | _rollout_metrics(rollout)
            groups.append(group._replace(episodes=tracked, discounted=discounted))
        return TrainState(learnt, normaliser, tuple(groups), state.key), metrics


def _rollout_metrics(rollout: Rollout) -> Metrics:
    return {
        "roll/reward_mean": jnp.mean(rollout.reward),
        "roll/train_reward_mean": jnp.mean(rollout.train_reward),
        "roll/terminated": jnp.sum(rollout.terminated),
        "roll/truncated": jnp.sum(rollout.truncated),
    }


def window_reached(metrics: Metrics, threshold: Array) -> Array:
    """Whether a full window of training episodes has the mean return asked for."""
    return (metrics["roll/return_window"] >= episodes.WINDOW) & (metrics["roll/return_mean"] >= threshold)
