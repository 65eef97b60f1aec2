"""REINFORCE: Monte-Carlo policy gradient over whole episodes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.algorithms.base import ActorCriticAlgorithm, Hyper, LearnerState, Metrics
from gymlab.algorithms.opt_metrics import gradient_norms, norm_names, policy_change, scaled_losses, weighted_estimates
from gymlab.algorithms.settings import PolicyGradientSettings, Positive
from gymlab.core.schedules import constant
from gymlab.core.settings import ReadWhen
from gymlab.core.types import Array, Rollout, Tree
from gymlab.experience.advantages import fold, monte_carlo, normalize
from gymlab.experience.space_arrays import zero_action, zero_obs
from gymlab.networks.flat_network import Params


class ReinforceSettings(PolicyGradientSettings):
    """Every transition is used once, in the update in which its episode ends."""

    default_n_steps: ClassVar[int | None] = None

    learning_rate: Positive = constant(1e-3)
    """Step size of the optimiser."""
    baseline: Literal["none", "running_mean", "value"] = "value"
    """What is subtracted from the return."""
    value_coef: Annotated[Positive, ReadWhen("value baseline")] = constant(0.5)
    """Weight of the value loss."""
    stale: Literal["ratio", "none"] = "ratio"
    """How transitions of older policies are weighted: by min(1, pi / pi_old), or not at all."""
    normalize_advantage: bool = True
    """Centre and scale the advantages of each update."""


class Pending(NamedTuple):
    """Transitions of episodes still open, right-aligned in a buffer as long as the longest episode."""

    obs: Tree  # (L, N, *obs)
    action: Array  # (L, N, *act)
    log_prob: Array  # (L, N) under the policy that chose it
    reward: Array  # (L, N)
    valid: Array  # (L, N)


class ReinforceBuffers(NamedTuple):
    pending: tuple[Pending, ...]  # one per env group
    mean_return: Array  # the running-mean baseline
    updates: Array
    discarded: Array  # transitions so far that left unused, as the end of their episode was not seen


class Sample(NamedTuple):
    """Transitions of the episodes that ended, among others of weight 0."""

    obs: Tree
    action: Array
    log_prob: Array
    target: Array  # discounted return to the end of the episode
    used: Array  # 1 where the episode has ended and the transition is used now, else 0
    stale: Array  # chosen by an older policy
    fresh: Tree = ()  # the steps are in no order
    carry: Tree = ()


class ReinforceAlgorithm(ActorCriticAlgorithm):
    """Wait for an episode to end, then follow the gradient of its return once."""

    Settings = ReinforceSettings
    settings: ReinforceSettings

    def notes(self) -> list[str]:
        if self.settings.baseline == "value":
            return []
        name = self.settings.baseline
        notes = [f"reinforce with baseline {name}: returns of truncated episodes end with 0, not a value"]
        if name == "none" and self.settings.normalize_advantage:
            notes.append(
                "reinforce.normalize_advantage subtracts the mean return of each update, which is a baseline too: "
                "false for none at all"
            )
        return notes

    def initial_buffers(self, n_envs: tuple[int, ...]) -> ReinforceBuffers:
        length = self.spaces.max_episode_steps

        def empty(n: int) -> Pending:
            obs = zero_obs(self.spaces, (length, n))
            action = zero_action(self.spaces.action, (length, n))
            zeros = jnp.zeros((length, n), jnp.float32)
            return Pending(obs, action, zeros, zeros, jnp.zeros((length, n), bool))

        return ReinforceBuffers(tuple(map(empty, n_envs)), jnp.float32(0), jnp.int32(0), jnp.int32(0))

    def forget_open_episodes(self, state: LearnerState) -> LearnerState:
        discarded = state.buffers.discarded + sum(p.valid.sum() for p in state.buffers.pending)
        pending = tuple(p._replace(valid=jnp.zeros_like(p.valid)) for p in state.buffers.pending)
        return state._replace(buffers=state.buffers._replace(pending=pending, discarded=discarded))

    def update(
        self, state: LearnerState, rollouts: tuple[Rollout, ...], hp: Hyper, key: Array
    ) -> tuple[LearnerState, Metrics]:
        del key
        pairs = [self._join(state.params, p, r, hp) for p, r in zip(state.buffers.pending, rollouts, strict=True)]
        sample = jax.tree.map(lambda *parts: jnp.concatenate([fold(x) for x in parts]), *[s for s, _ in pairs])
        count = sample.used.sum()
        (_, metrics), grads = jax.value_and_grad(self.loss, has_aux=True)(state.params, sample, state.buffers, hp)
        ready = self.optimizer.start_update(state.optimiser, state.params, hp["learning_rate"])
        params, opt, _ = self.optimizer.step(ready, state.params, grads, hp["max_grad_norm"])
        # Without a finished episode there is no gradient, and an optimiser's momentum must not move on alone.
        kept = jax.tree.map(lambda new, old: jnp.where(count > 0, new, old), (params, opt), (state.params, ready))
        before = self.replay(state.params, sample).distribution
        metrics |= policy_change(before, self.replay(kept[0], sample).distribution, sample.action, sample.used)
        metrics |= zip(norm_names(grads), gradient_norms(grads, hp["max_grad_norm"]), strict=True)
        metrics |= scaled_losses(metrics, self._value_coef(hp), hp["entropy_coef"])
        metrics["opt/gradient_steps"] = (count > 0).astype(jnp.int32)
        metrics["roll/stale_fraction"] = (sample.stale * sample.used).sum() / jnp.maximum(count, 1)
        metrics["roll/used_transitions"] = count
        held = count + sum(p.valid.sum() for _, p in pairs)
        lost = sum(p.valid.sum() for p in state.buffers.pending) + sum(r.fresh.size for r in rollouts) - held
        buffers = self._remember(state.buffers, sample, tuple(p for _, p in pairs), lost)
        metrics["roll/discarded_transitions"] = buffers.discarded
        return LearnerState(kept[0], kept[1], buffers), metrics

    def loss(self, params: Params, sample: Sample, buffers: ReinforceBuffers, hp: Hyper) -> tuple[Array, Metrics]:
        """Minus the weighted log-probability of each action, times how much better than the baseline it turned out."""
        policy, value, _ = self.replay(params, sample)
        count = jnp.maximum(sample.used.sum(), 1)
        log_prob = policy.log_prob(sample.action)
        baseline = {"none": 0.0, "running_mean": buffers.mean_return, "value": lax.stop_gradient(value)}
        advantage = (sample.target - baseline[self.settings.baseline]) * sample.used
        measured = weighted_estimates(advantage, sample.target, sample.used)
        if self.settings.normalize_advantage:
            advantage = normalize(advantage, sample.used)
        weight = sample.used
        if self.settings.stale == "ratio":
            weight = weight * jnp.minimum(jnp.exp(lax.stop_gradient(log_prob) - sample.log_prob), 1.0)
        policy_loss = -(log_prob * advantage * weight).sum() / count
        value_loss = ((value - sample.target) ** 2 * sample.used).sum() / count
        entropy = (policy.entropy() * sample.used).sum() / count
        loss = policy_loss + self._value_coef(hp) * value_loss - hp["entropy_coef"] * entropy
        return loss, {
            **measured,
            "opt/loss": loss,
            "opt/policy_loss": policy_loss,
            "opt/value_loss": value_loss,
            "opt/entropy": entropy,
        }

    def _value_coef(self, hp: Hyper) -> Array | float:
        return hp["value_coef"] if self.settings.baseline == "value" else 0.0

    def _join(self, params: Params, pending: Pending, rollout: Rollout, hp: Hyper) -> tuple[Sample, Pending]:
        """Pending transitions followed by the rollout, and what of it stays pending."""
        length = len(pending.valid)
        n_steps = len(rollout.train_reward)
        fresh = Pending(
            rollout.obs, rollout.action, rollout.log_prob, rollout.train_reward, jnp.ones_like(rollout.fresh)
        )
        joined = jax.tree.map(lambda a, b: jnp.concatenate([a, b.astype(a.dtype)]), pending, fresh)
        quiet = jnp.zeros_like(pending.valid)
        terminated = jnp.concatenate([quiet, rollout.terminated])
        truncated = jnp.concatenate([quiet, rollout.truncated])
        end_values: Array = jnp.zeros_like(rollout.train_reward)
        if self.settings.baseline == "value":
            end_values = self.value(params, rollout.successor, ())
        end_values = jnp.concatenate([jnp.zeros_like(pending.reward), end_values])
        target = monte_carlo(joined.reward, end_values, terminated, truncated, gamma=hp["gamma"])
        ended = lax.cummax((terminated | truncated).astype(jnp.int8), reverse=True) > 0
        used = joined.valid & ended
        stale = jnp.arange(length + n_steps)[:, None] < length
        sample = Sample(
            joined.obs,
            joined.action,
            joined.log_prob,
            target,
            used.astype(jnp.float32),
            jnp.broadcast_to(stale, used.shape).astype(jnp.float32),
        )
        rest = joined._replace(valid=joined.valid & ~used)
        return sample, jax.tree.map(lambda x: x[n_steps:], rest)

    def _remember(
        self, buffers: ReinforceBuffers, sample: Sample, pending: tuple[Pending, ...], lost: Array
    ) -> ReinforceBuffers:
        count = sample.used.sum()
        mean = (sample.target * sample.used).sum() / jnp.maximum(count, 1)
        # A plain mean over the first updates, then one that forgets: early returns are not what to expect later.
        rate = jnp.maximum(1.0 / (buffers.updates + 1), 0.05)
        moved = jnp.where(count > 0, buffers.mean_return + rate * (mean - buffers.mean_return), buffers.mean_return)
        discarded = buffers.discarded + lost.astype(jnp.int32)
        return ReinforceBuffers(pending, moved, buffers.updates + (count > 0), discarded)
