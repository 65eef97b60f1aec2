"""Proximal policy optimisation."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from pydantic import Field

from gymlab.algorithms.base import ActorCriticAlgorithm, Hyper, LearnerState, Metrics
from gymlab.algorithms.opt_metrics import approx_kl, clip_fraction, estimates, gradient_norms, norm_names, scaled_losses
from gymlab.algorithms.settings import PolicyGradientSettings, Positive, Share
from gymlab.core.clock import Count, Number
from gymlab.core.schedules import constant
from gymlab.core.types import Array, Rollout
from gymlab.experience.advantages import Batch, normalize
from gymlab.experience.minibatches import shuffled, take
from gymlab.networks.flat_network import Params


class PPOSettings(PolicyGradientSettings):
    """Clipped surrogate objective over several epochs of shuffled minibatches."""

    gae_lambda: Share = constant(0.95)
    """Bias against variance of the advantage estimate."""
    clip_range: Positive = constant(0.2)
    """How far the probability ratio may move before its gradient is cut."""
    value_clip: Positive | None = None
    """The same for value predictions; off by default."""
    batch_size: Annotated[Number, Field(gt=0)] = 64
    """Transitions per gradient step; below 1, a share of the rollout."""
    epochs: Annotated[Count, Field(ge=1)] = 10
    """Passes over each rollout."""
    normalize_advantage: bool = True
    """Centre and scale advantages in each minibatch."""
    target_kl: Positive | None = None
    """Skip the rest of an update once the approximate KL exceeds this."""

    default_n_steps: ClassVar[int | None] = 128

    def minibatch_size(self, rollout: int) -> int:
        return round(self.batch_size * rollout) if self.batch_size < 1 else int(self.batch_size)

    def check_rollout(self, n_envs: int, n_steps: int) -> None:
        rollout = n_envs * n_steps
        size = self.minibatch_size(rollout)
        if size < 1 or rollout % size or (self.batch_size > 1 and self.batch_size != size):
            pairs = [(d, rollout // d) for d in range(1, math.isqrt(rollout) + 1) if rollout % d == 0]
            fits = sorted({d for pair in pairs for d in pair}, key=lambda d: abs(d - self.batch_size))[:2]
            raise ValueError(
                f"batch_size={self.batch_size:g} does not divide the rollout of {rollout} steps "
                f"({n_envs} envs x {n_steps}): try {' or '.join(map(str, sorted(fits)))}"
            )


class _Progress(NamedTuple):
    """The state of an update between two gradient steps."""

    step: Array
    stopped: Array
    learner: LearnerState
    totals: Array  # sums over the executed gradient steps: the loss's metrics, then the gradient's norms


class PPOAlgorithm(ActorCriticAlgorithm):
    """Collect, estimate advantages once, then take clipped gradient steps over shuffled minibatches."""

    Settings = PPOSettings
    settings: PPOSettings

    def update(
        self, state: LearnerState, rollouts: tuple[Rollout, ...], hp: Hyper, key: Array
    ) -> tuple[LearnerState, Metrics]:
        batch = self.gae_batch(state.params, rollouts, hp)
        samples = len(batch.advantage)
        size = self.settings.minibatch_size(samples)
        steps = self.settings.epochs * (samples // size)
        # A minibatch that is the whole rollout needs no shuffling: order does not change a mean.
        order = shuffled(key, samples, size, self.settings.epochs) if size < samples else None

        def gradient_step(now: _Progress) -> _Progress:
            part = batch if order is None else take(batch, order[now.step])
            (_, metrics), grads = jax.value_and_grad(self.loss, has_aux=True)(now.learner.params, part, hp)
            norms = gradient_norms(grads, hp["max_grad_norm"])
            totals = now.totals + jnp.concatenate([jnp.stack([metrics[name] for name in of_loss]), norms])
            return self._count(now, self._descend(now.learner, grads, hp), totals, metrics, hp)

        learner = state._replace(
            optimiser=self.optimizer.start_update(state.optimiser, state.params, hp["learning_rate"])
        )
        of_loss = list(jax.eval_shape(self.loss, state.params, batch, hp)[1])
        names = [*of_loss, *norm_names(state.params)]
        begin = _Progress(jnp.int32(0), jnp.bool_(False), learner, jnp.zeros(len(names), jnp.float32))
        end = lax.while_loop(lambda now: (now.step < steps) & ~now.stopped, gradient_step, begin)
        metrics = dict(zip(names, end.totals / end.step, strict=True))
        metrics |= scaled_losses(metrics, hp["value_coef"], hp["entropy_coef"])
        metrics |= estimates(batch.advantage, batch.target, batch.value)
        metrics["opt/gradient_steps"] = end.step
        metrics["opt/kl_stop"] = end.stopped
        return end.learner, metrics

    def loss(self, params: Params, batch: Batch, hp: Hyper) -> tuple[Array, Metrics]:
        """The clipped surrogate, the value error and the entropy bonus of one minibatch."""
        policy, value, _ = self.replay(params, batch)
        advantage = normalize(batch.advantage) if self.settings.normalize_advantage else batch.advantage
        log_ratio = policy.log_prob(batch.action) - batch.log_prob
        ratio = jnp.exp(log_ratio)
        clipped = jnp.clip(ratio, 1 - hp["clip_range"], 1 + hp["clip_range"])
        policy_loss = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        value_loss = self._value_loss(value, batch, hp)
        entropy = jnp.mean(policy.entropy())
        loss = policy_loss + hp["value_coef"] * value_loss - hp["entropy_coef"] * entropy
        return loss, {
            "opt/loss": loss,
            "opt/policy_loss": policy_loss,
            "opt/value_loss": value_loss,
            "opt/entropy": entropy,
            "opt/approx_kl": approx_kl(log_ratio),
            "opt/clip_fraction": clip_fraction(log_ratio, hp["clip_range"]),
        }

    def _value_loss(self, value: Array, batch: Batch, hp: Hyper) -> Array:
        error = (value - batch.target) ** 2
        if self.settings.value_clip is not None:
            near = batch.value + jnp.clip(value - batch.value, -hp["value_clip"], hp["value_clip"])
            error = jnp.maximum(error, (near - batch.target) ** 2)
        return jnp.mean(error)

    def _descend(self, learner: LearnerState, grads: Params, hp: Hyper) -> LearnerState:
        params, state, _ = self.optimizer.step(learner.optimiser, learner.params, grads, hp["max_grad_norm"])
        return learner._replace(params=params, optimiser=state)

    def _count(self, now: _Progress, learner: LearnerState, totals: Array, metrics: Metrics, hp: Hyper) -> _Progress:
        """Keep the step and its metrics, unless the policy had already moved too far before it."""
        if self.settings.target_kl is None:
            return _Progress(now.step + 1, now.stopped, learner, totals)
        stop = metrics["opt/approx_kl"] > hp["target_kl"]
        kept = (now.step + 1, learner, totals)
        dropped = (now.step, now.learner, now.totals)
        step, learner, totals = jax.tree.map(lambda new, old: jnp.where(stop, old, new), kept, dropped)
        return _Progress(step, stop, learner, totals)
