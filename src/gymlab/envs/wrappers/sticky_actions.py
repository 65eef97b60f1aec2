"""`sticky_actions: 0.25`: with this probability the env repeats its last action instead of taking the new one."""

from __future__ import annotations

from typing import cast

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from gymlab.core.rng import stream_id
from gymlab.envs.gymnasium_types import Env, EnvValue, EnvWrapper, Info, ResetResult, StepResult


class StickyActions(EnvWrapper, RecordConstructorArgs):
    """Draws from its own generator, seeded by the episode, so an episode is still a function of its seed and actions.

    An action that an action mask forbids by now is not repeated.
    """

    def __init__(self, env: Env, probability: float = 0.25) -> None:
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"probability={probability!r} must be at least 0 and below 1")
        RecordConstructorArgs.__init__(self, probability=probability)
        gymnasium.Wrapper.__init__(self, env)
        self._probability = probability
        self._last: EnvValue | None = None
        self._mask: np.ndarray | None = None
        self._rng = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        self._last = None
        if seed is not None:  # the env's own generator need not be seeded anew by it
            self._rng = np.random.default_rng([seed, stream_id("sticky_actions")])
        obs, info = self.env.reset(seed=seed, options=options)
        self._mask = info.get("action_mask")
        return obs, info

    def step(self, action: EnvValue) -> StepResult:
        last = self._last
        sticks = last is not None and self._rng.random() < self._probability
        if sticks and (self._mask is None or self._mask[cast("int", last)]):  # masks come with Discrete actions
            action = cast("EnvValue", last)
        self._last = action
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._mask = info.get("action_mask")
        return obs, reward, terminated, truncated, info
