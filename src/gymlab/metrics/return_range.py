"""The returns that are possible at all, for envs whose rewards are known. Gymnasium's registrations do not say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from gymlab.metrics.metric import Limits


class Rewards(NamedTuple):
    """What one step can give, and what can come on top once in an episode."""

    low: float
    high: float
    once_low: float = 0.0
    once_high: float = 0.0


_PENDULUM_COST = math.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2
REWARDS = {
    "Acrobot-v1": Rewards(-1, 0),
    "Blackjack-v1": Rewards(0, 0, -1, 1),
    "CartPole-v1": Rewards(1, 1),
    "CliffWalking-v1": Rewards(-100, -1),
    "FrozenLake-v1": Rewards(0, 0, 0, 1),
    "FrozenLake8x8-v1": Rewards(0, 0, 0, 1),
    "MountainCar-v0": Rewards(-1, -1),
    "MountainCarContinuous-v0": Rewards(-0.1, 0, 0, 100),
    "Pendulum-v1": Rewards(-_PENDULUM_COST, 0),
    "Taxi-v4": Rewards(-10, -1, 0, 21),  # the last step gives 20 in place of -1
}


def return_range(env_id: str, max_episode_steps: int, kwargs: Mapping[str, Any] | None = None) -> Limits | None:
    """The lowest and the highest return of an episode; None where that is not known, or the env was changed."""
    rewards = REWARDS.get(env_id)
    if rewards is None or kwargs:
        return None
    # An episode lasts from one step to the time limit: whichever of the two is worse, or better.
    low = rewards.low * (max_episode_steps if rewards.low < 0 else 1) + rewards.once_low
    high = rewards.high * (max_episode_steps if rewards.high > 0 else 1) + rewards.once_high
    return low, high
