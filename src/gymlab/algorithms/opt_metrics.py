"""What an update did to the policy, measured the same way for every algorithm."""

from __future__ import annotations

import jax.numpy as jnp

from gymlab.algorithms.optimizers import clip_scale
from gymlab.core.types import Array
from gymlab.networks.distributions import Distribution
from gymlab.networks.flat_network import Params


def approx_kl(log_ratio: Array) -> Array:
    """Schulman's low-variance, non-negative estimate of KL(old || new) from samples of the old policy."""
    return jnp.mean(jnp.expm1(log_ratio) - log_ratio)


def clip_fraction(log_ratio: Array, clip_range: Array) -> Array:
    """Share of samples whose probability ratio left the clip range."""
    return jnp.mean(jnp.abs(jnp.expm1(log_ratio)) > clip_range)


def policy_change(
    before: Distribution, after: Distribution, action: Array, weight: Array | None = None
) -> dict[str, Array]:
    """KL(old || new) over a batch, exact and from the actions taken, for algorithms of one gradient step."""
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
    """(2 * (1 + parts),) norms before and after the gradient is clipped to `limit`; `norm_names` says which."""
    norms = part_norms(grads)
    return jnp.concatenate([norms, norms * clip_scale(norms[0], limit)])


def norm_names(params: Params) -> list[str]:
    """Of what `gradient_norms` gives."""
    kinds = ("opt/grad_norm", "opt/grad_norm_clipped")
    parts = ("", *(f"/{part}" for part in parts_of(params)))
    return [f"{kind}{part}" for kind in kinds for part in parts]


def estimates(advantage: Array, target: Array, prediction: Array) -> dict[str, Array]:
    """How advantages and targets are spread, and how well the targets were predicted."""
    mean, variance = _moments([advantage, target, target - prediction])
    unexplained = jnp.where(variance[1] > 0, variance[2] / variance[1], jnp.nan)
    return _spread(mean, variance) | {"opt/explained_variance": 1 - unexplained}  # NaN when the targets do not vary


def weighted_estimates(advantage: Array, target: Array, weight: Array) -> dict[str, Array]:
    """How the advantages and targets are spread that `weight` marks with 1; NaN where it marks none."""
    return _spread(*_moments([advantage, target], weight))


def _moments(values: list[Array], weight: Array | None = None) -> tuple[Array, Array]:
    """Mean and variance of each, of all at once: every sum over a batch is a kernel to compile."""
    stacked = jnp.stack(values)
    count = stacked.shape[1] if weight is None else weight.sum()
    mean = (stacked if weight is None else stacked * weight).sum(1) / count
    squares = (stacked - mean[:, None]) ** 2
    return mean, (squares if weight is None else squares * weight).sum(1) / count


def _spread(mean: Array, variance: Array) -> dict[str, Array]:
    """Of advantages, then of targets."""
    std = jnp.sqrt(variance[:2])
    found = {"opt/advantage_mean": mean[0], "opt/target_mean": mean[1]}
    return found | {"opt/advantage_std": std[0], "opt/target_std": std[1]}


def scaled_losses(metrics: dict[str, Array], value_coef: Array | float, entropy_coef: Array) -> dict[str, Array]:
    """The weighted terms of the loss: their sum is the loss."""
    factors = {"policy": ("opt/policy_loss", 1.0), "value": ("opt/value_loss", value_coef)}
    factors["entropy"] = ("opt/entropy", -entropy_coef)
    known = {part: (name, factor) for part, (name, factor) in factors.items() if name in metrics}
    return {f"opt/loss/{part}_scaled": factor * metrics[name] for part, (name, factor) in known.items()}
