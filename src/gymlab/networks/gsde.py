"""Generalised state-dependent exploration (gSDE, Raffin et al., 2021): noise = latent @ W, with W held for some steps.

W ~ N(0, std^2) is drawn for each env; the features before the last layer are `latent`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gymlab.core.types import Array, Tree

_EPS = 1e-6  # added to the variance


def initial_noise(n_envs: int, shape: tuple[int, ...]) -> Tree:
    """The carry of `n_envs` envs before anything was drawn (age 0)."""
    noise = jnp.zeros((n_envs, *shape), jnp.float32)
    return {"noise": noise, "age": jnp.zeros(n_envs, jnp.int32)}


def hold_noise(carry: Tree, key: Array, every: int) -> Tree:
    """The carry with a new standard-normal matrix for each env whose last one was held for `every` steps.

    It is scaled by the current std when used, so log-probabilities stay true after an update.
    """
    drawn = jax.random.normal(key, carry["noise"].shape)
    due = carry["age"] % every == 0
    return {"noise": jnp.where(due[:, None, None], drawn, carry["noise"]), "age": carry["age"] + 1}


def exploration(latent: Array, noise: Array, log_std: Array) -> Array:
    """(n, actions): what is added to the mean action; `noise` is standard normal, (n, features, actions)."""
    return jnp.einsum("nf,nfd,fd->nd", latent, noise, jnp.exp(log_std))


def action_log_std(latent: Array, log_std: Array) -> Array:
    """Log std of the actions in each state: the variance of latent @ W is known exactly."""
    variance = jax.lax.stop_gradient(latent) ** 2 @ jnp.exp(2 * log_std)
    return 0.5 * jnp.log(variance + _EPS)
