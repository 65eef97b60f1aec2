"""What is measured of every update beside what its algorithm says: rewards and actions, as a few numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from gymnasium import spaces as gym

from gymlab.algorithms.base import Metrics
from gymlab.core.types import Rollout
from gymlab.networks.heads import to_env

# What algorithms measure that `metrics.statistics: basic` leaves out; not asked for, it is not computed.
_DETAILS = ("opt/grad_norm/", "opt/grad_norm_clipped", "opt/loss/", "opt/advantage_", "opt/target_")


def basic(metrics: Metrics) -> Metrics:
    """An algorithm's metrics without the details."""
    return {name: value for name, value in metrics.items() if not name.startswith(_DETAILS)}


def reward_statistics(rollout: Rollout, *, full: bool) -> Metrics:
    """Rewards as the env gave them and as learning sees them, and how many episodes ended how."""
    rewards = (rollout.reward, rollout.train_reward)
    size = rollout.reward.size
    summed = jnp.stack([*rewards, rollout.reward != 0, rollout.terminated, rollout.truncated]).reshape(5, -1)
    sums = summed.sum(1)  # one after the other would be a pass over the rollout for each, and a kernel to compile
    mean = sums[:3] / size
    found = {"roll/reward_mean": mean[0], "roll/train_reward_mean": mean[1]}
    if full:
        std = jnp.sqrt(((summed[:2] - mean[:2, None]) ** 2).sum(1) / size)
        found |= {"roll/reward_nonzero": mean[2], "roll/reward_std": std[0], "roll/train_reward_std": std[1]}
        found |= {"roll/reward_min": rollout.reward.min(), "roll/reward_max": rollout.reward.max()}
    return found | {"roll/terminated": sums[3], "roll/truncated": sums[4]}


def action_statistics(space: Any, rollout: Rollout) -> Metrics:
    """Actions as the env received them."""
    sent = to_env(space, rollout.action).astype(jnp.float32)
    found = {"roll/action_mean": sent.mean(), "roll/action_std": sent.std()}
    if isinstance(space, gym.Box):
        shaped = rollout.action.reshape(*rollout.reward.shape, *space.shape)
        found["roll/action_clipped"] = jnp.mean((shaped < space.low) | (shaped > space.high))
    return found


def reward_parts(rollout: Rollout) -> Metrics:
    """The named parts of the reward: how large, which share of all, how often not 0."""
    if not rollout.components:
        return {}
    parts = jnp.stack([part.ravel() for part in rollout.components.values()])
    mean = parts.mean(1)
    size = jnp.abs(parts).mean(1)
    nonzero = (parts != 0).mean(1)
    share = jnp.where(size.sum() > 0, size / size.sum(), 0.0)
    told = {"mean": mean, "share": share, "nonzero": nonzero}
    return {
        f"env/reward_{word}/{name}": values[i]
        for word, values in told.items()
        for i, name in enumerate(rollout.components)
    }
