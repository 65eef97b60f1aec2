"""What is measured of every update beside what its algorithm says: rewards and actions, as a few numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from gymnasium import spaces as gym

from gymlab.algorithms.base import Metrics
from gymlab.core.types import Rollout
from gymlab.policies.heads import to_env

# What algorithms measure that `metrics.statistics: basic` leaves out; not asked for, it is not computed.
_DETAILS = ("opt/grad_norm/", "opt/grad_norm_clipped", "opt/loss/", "opt/advantage_", "opt/target_")


def basic(metrics: Metrics) -> Metrics:
    """An algorithm's metrics without the details."""
    return {name: value for name, value in metrics.items() if not name.startswith(_DETAILS)}


def rollout_statistics(space: Any, rollout: Rollout) -> Metrics:
    """Rewards as the env gave them and as learning sees them, and actions as the env received them."""
    sent = to_env(space, rollout.action).astype(jnp.float32)
    sent = sent.reshape(*rollout.reward.shape, -1)
    found = {"roll/action_mean": sent.mean(), "roll/action_std": sent.std()}
    if isinstance(space, gym.Box):
        shaped = rollout.action.reshape(*rollout.reward.shape, *space.shape)
        found["roll/action_clipped"] = jnp.mean((shaped < space.low) | (shaped > space.high))
    rewards = jnp.stack([rollout.reward, rollout.train_reward]).reshape(2, -1)
    std = rewards.std(1)
    return (
        found
        | _parts(rollout)
        | {
            "roll/reward_std": std[0],
            "roll/train_reward_std": std[1],
            "roll/reward_min": rewards[0].min(),
            "roll/reward_max": rewards[0].max(),
            "roll/reward_nonzero": jnp.mean(rewards[0] != 0),
        }
    )


def _parts(rollout: Rollout) -> Metrics:
    """The named parts of the reward: how large, which share of all, how often not 0."""
    if not rollout.components:
        return {}
    parts = jnp.stack([part.ravel() for part in rollout.components.values()])
    mean, size, nonzero = parts.mean(1), jnp.abs(parts).mean(1), (parts != 0).mean(1)
    share = jnp.where(size.sum() > 0, size / size.sum(), 0.0)
    told = {"mean": mean, "share": share, "nonzero": nonzero}
    return {
        f"env/reward_{word}/{name}": values[i]
        for word, values in told.items()
        for i, name in enumerate(rollout.components)
    }
