"""Advantage actor-critic: one gradient step per rollout."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from gymlab.algorithms.base import ActorCriticAlgorithm, Hyper, LearnerState, Metrics
from gymlab.algorithms.opt_metrics import estimates, gradient_norms, norm_names, policy_change, scaled_losses
from gymlab.algorithms.settings import OptimizerName, PolicyGradientSettings, Positive, Share
from gymlab.core.schedules import constant
from gymlab.core.types import Array, Rollout
from gymlab.experience.advantages import Batch, normalize
from gymlab.networks.flat_network import Params


class A2CSettings(PolicyGradientSettings):
    """Policy gradient with a learned baseline, one step per rollout."""

    default_n_steps: ClassVar[int | None] = 5

    learning_rate: Positive = constant(7e-4)
    """Step size of the optimiser."""
    gae_lambda: Share = constant(1.0)
    """Bias against variance of the advantage estimate."""
    normalize_advantage: bool = False
    """Centre and scale the advantages of each rollout."""
    optimizer: OptimizerName = "rmsprop"
    """As for ppo."""


class A2CAlgorithm(ActorCriticAlgorithm):
    """Collect a few steps, estimate advantages, take one gradient step."""

    Settings = A2CSettings
    settings: A2CSettings

    def update(
        self, state: LearnerState, rollouts: tuple[Rollout, ...], hp: Hyper, key: Array
    ) -> tuple[LearnerState, Metrics]:
        del key
        batch = self.gae_batch(state.params, rollouts, hp)
        (_, metrics), grads = jax.value_and_grad(self.loss, has_aux=True)(state.params, batch, hp)
        ready = self.optimizer.start_update(state.optimiser, state.params, hp["learning_rate"])
        params, opt, _ = self.optimizer.step(ready, state.params, grads, hp["max_grad_norm"])
        before = self.replay(state.params, batch).distribution
        metrics |= policy_change(before, self.replay(params, batch).distribution, batch.action)
        metrics |= zip(norm_names(grads), gradient_norms(grads, hp["max_grad_norm"]), strict=True)
        metrics |= scaled_losses(metrics, hp["value_coef"], hp["entropy_coef"])
        metrics |= estimates(batch.advantage, batch.target, batch.value)
        metrics["opt/gradient_steps"] = jnp.int32(1)
        return state._replace(params=params, optimiser=opt), metrics

    def loss(self, params: Params, batch: Batch, hp: Hyper) -> tuple[Array, Metrics]:
        """Policy gradient, value error and entropy bonus of the rollout."""
        policy, value, _ = self.replay(params, batch)
        advantage = normalize(batch.advantage) if self.settings.normalize_advantage else batch.advantage
        policy_loss = -jnp.mean(advantage * policy.log_prob(batch.action))
        value_loss = jnp.mean((value - batch.target) ** 2)
        entropy = jnp.mean(policy.entropy())
        loss = policy_loss + hp["value_coef"] * value_loss - hp["entropy_coef"] * entropy
        return loss, {
            "opt/loss": loss,
            "opt/policy_loss": policy_loss,
            "opt/value_loss": value_loss,
            "opt/entropy": entropy,
        }
