"""`sticky_actions: 0.25`: with this probability the env repeats its last action instead of taking the new one."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from gymlab.core.rng import stream_id


class StickyActions(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Draws from its own generator, seeded by the episode, so an episode is still a function of its seed and actions.

    An action that an action mask forbids by now is not repeated.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], probability: float = 0.25) -> None:
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"probability={probability!r} must be at least 0 and below 1")
        RecordConstructorArgs.__init__(self, probability=probability)
        gymnasium.Wrapper.__init__(self, env)
        self._probability = probability
        self._last: Any = None
        self._mask: Any = None
        self._rng = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._last = None
        if seed is not None:  # the env's own generator need not be seeded anew by it
            self._rng = np.random.default_rng([seed, stream_id("sticky_actions")])
        obs, info = self.env.reset(seed=seed, options=options)
        self._mask = info.get("action_mask")
        return obs, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        sticks = self._last is not None and self._rng.random() < self._probability
        if sticks and (self._mask is None or self._mask[self._last]):
            action = self._last
        self._last = action
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._mask = info.get("action_mask")
        return obs, reward, terminated, truncated, info
