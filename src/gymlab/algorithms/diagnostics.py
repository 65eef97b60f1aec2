"""What an update did to the policy, measured the same way for every algorithm."""

from __future__ import annotations

import jax.numpy as jnp

from gymlab.algorithms.optimiser import clip_scale
from gymlab.core.types import Array, Tree
from gymlab.policies.actor_critic import ActorCritic
from gymlab.policies.flat import Params


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


def parts_of(params: Params) -> dict[str, list[str]]:
    """The tensors of each part of the network: the first word of their names."""
    parts: dict[str, list[str]] = {}
    for name in params:
        parts.setdefault(name.partition(".")[0], []).append(name)
    return parts


def part_norms(values: Params) -> Array:
    """(1 + parts,) the norm of everything, and of each part in the order of `parts_of`."""
    squares = [sum(jnp.sum(values[name] ** 2) for name in names) for names in parts_of(values).values()]
    return jnp.sqrt(jnp.stack([sum(squares), *squares]))


def gradient_norms(grads: Params, limit: Array) -> Array:
    """(2, 1 + parts) norms before and after the gradient is clipped to `limit`."""
    norms = part_norms(grads)
    return jnp.stack([norms, norms * clip_scale(norms[0], limit)])


def norm_metrics(name: str, params: Params, norms: Array) -> dict[str, Array]:
    """What `part_norms` gave, by name."""
    return dict(zip([name, *(f"{name}/{part}" for part in parts_of(params))], norms, strict=True))


def gradient_metrics(params: Params, norms: Array) -> dict[str, Array]:
    """What `gradient_norms` gave, by name."""
    before = norm_metrics("opt/grad_norm", params, norms[0])
    return before | norm_metrics("opt/grad_norm_clipped", params, norms[1])


def spread(names: tuple[str, ...], values: list[Array], weight: Array | None = None) -> dict[str, Array]:
    """Mean and standard deviation of some arrays over the part that `weight` marks; NaN where it marks nothing."""
    stacked = jnp.stack(values)
    share = jnp.full(values[0].shape, 1 / values[0].size) if weight is None else weight / weight.sum()
    mean = (stacked * share).sum(1)
    std = jnp.sqrt(((stacked - mean[:, None]) ** 2 * share).sum(1))
    return {f"{name}_mean": mean[i] for i, name in enumerate(names)} | {
        f"{name}_std": std[i] for i, name in enumerate(names)
    }


def scaled_losses(metrics: dict[str, Array], value_coef: Array | float, entropy_coef: Array) -> dict[str, Array]:
    """The three parts as they stand in the loss, as far as it names them: their sum is it."""
    factors = {"policy": ("opt/policy_loss", 1.0), "value": ("opt/value_loss", value_coef)}
    factors["entropy"] = ("opt/entropy", -entropy_coef)
    known = {part: (name, factor) for part, (name, factor) in factors.items() if name in metrics}
    return {f"opt/loss/{part}_scaled": factor * metrics[name] for part, (name, factor) in known.items()}
