"""`sticky_actions: 0.25`: with this probability the env repeats its last action instead of taking the new one."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
from gymnasium.utils import RecordConstructorArgs


class StickyActions(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Draws from the env's own generator, so an episode is still a function of its seed and its actions."""

    def __init__(self, env: gymnasium.Env[Any, Any], probability: float = 0.25) -> None:
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"probability={probability!r} must be at least 0 and below 1")
        RecordConstructorArgs.__init__(self, probability=probability)
        gymnasium.Wrapper.__init__(self, env)
        self._probability = probability
        self._last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._last = None
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        if self._last is not None and self.np_random.random() < self._probability:
            action = self._last
        self._last = action
        return self.env.step(action)
