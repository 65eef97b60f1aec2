"""From rollouts to batches: values, advantages and targets, the same for every algorithm."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from gymlab.core.types import Array, Rollout, Tree
from gymlab.experience import returns
from gymlab.networks.actor_critic import ActorCritic


class Batch(NamedTuple):
    """Transitions with time and env axes folded into one."""

    obs: Tree  # (B, *obs)
    action: Array  # (B, *act)
    log_prob: Array  # (B,) when it was chosen
    value: Array  # (B,) before the update
    advantage: Array  # (B,)
    target: Array  # (B,) what the value should have been


def state_values(network: ActorCritic, rollout: Rollout) -> tuple[Array, Array]:
    """V of each observation and of each true successor, both (T, N).

    A successor is the next observation except where an episode was cut, so its own value is only computed when one was.
    """
    values = network.value(rollout.obs)
    following = jnp.concatenate([values[1:], network.value(rollout.last_obs)[None]])
    next_values = lax.cond(
        rollout.truncated.any(),
        lambda: jnp.where(rollout.truncated, network.value(rollout.successor), following),
        lambda: following,
    )
    return values, next_values


def gae_batch(network: ActorCritic, rollouts: tuple[Rollout, ...], gamma: Array, lam: Array) -> Batch:
    """All groups' transitions with their generalised advantage estimates."""

    def one(rollout: Rollout) -> Batch:
        values, next_values = state_values(network, rollout)
        advantages = returns.gae(
            rollout.train_reward, values, next_values, rollout.terminated, rollout.truncated, gamma=gamma, lam=lam
        )
        batch = Batch(rollout.obs, rollout.action, rollout.log_prob, values, advantages, advantages + values)
        return jax.tree.map(fold, batch)

    return jax.tree.map(lambda *parts: jnp.concatenate(parts) if len(parts) > 1 else parts[0], *map(one, rollouts))


def fold(array: Array) -> Array:
    """(T, N, ...) to (T * N, ...)."""
    return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def normalize(x: Array, weight: Array | None = None, eps: float = 1e-8) -> Array:
    """Zero mean and unit std over the whole array, or over the part that `weight` marks (0 elsewhere)."""
    if weight is None:
        return (x - x.mean()) / (x.std() + eps)
    count = jnp.maximum(weight.sum(), 1)
    mean = (x * weight).sum() / count
    std = jnp.sqrt((((x - mean) ** 2) * weight).sum() / count)
    return (x - mean) / (std + eps) * weight
