"""What an update did to the policy, measured the same way for every algorithm."""

from __future__ import annotations

import jax.numpy as jnp

from gymlab.core.types import Array, Tree
from gymlab.policies.actor_critic import ActorCritic


def approx_kl(log_ratio: Array) -> Array:
    """Schulman's low-variance, non-negative estimate of KL(old || new) from samples of the old policy."""
    return jnp.mean(jnp.expm1(log_ratio) - log_ratio)


def clip_fraction(log_ratio: Array, clip_range: Array) -> Array:
    """Share of samples whose probability ratio left the clip range."""
    return jnp.mean(jnp.abs(jnp.expm1(log_ratio)) > clip_range)


def explained_variance(prediction: Array, target: Array) -> Array:
    """1 - Var[target - prediction] / Var[target]; NaN when the targets do not vary."""
    spread = jnp.var(target)
    return jnp.where(spread > 0, 1 - jnp.var(target - prediction) / spread, jnp.nan)


def policy_change(
    old: ActorCritic, new: ActorCritic, obs: Tree, action: Array, weight: Array | None = None
) -> dict[str, Array]:
    """KL(old || new) over a batch, exact and from the actions taken, for algorithms of one gradient step."""
    before, after = old.distribution(obs), new.distribution(obs)
    weight = jnp.ones(action.shape[0]) if weight is None else weight
    log_ratio = after.log_prob(action) - before.log_prob(action)
    count = jnp.maximum(weight.sum(), 1)
    return {
        "opt/kl": (before.kl(after) * weight).sum() / count,
        "opt/approx_kl": ((jnp.expm1(log_ratio) - log_ratio) * weight).sum() / count,
    }
