"""`frame_skip: 4`: each action is held for k env steps and their rewards are summed."""

from __future__ import annotations

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from gymlab.envs.gymnasium_types import Env, EnvValue, EnvWrapper, StepResult


class FrameSkip(EnvWrapper, RecordConstructorArgs):
    """Stops early where the episode ends, or where an action mask forbids the action from there on.

    A time limit inside still counts the env's own steps.
    """

    def __init__(self, env: Env, k: int = 4) -> None:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ValueError(f"k={k!r} must be a whole number of at least 1")
        RecordConstructorArgs.__init__(self, k=k)
        gymnasium.Wrapper.__init__(self, env)
        self.k = k

    def step(self, action: EnvValue) -> StepResult:
        total = 0.0
        for _ in range(self.k):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated or ("action_mask" in info and not info["action_mask"][action]):
                break
        return obs, total, terminated, truncated, info
