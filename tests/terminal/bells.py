"""Envs that send a signal or hang at a chosen step, and a feature that fails."""

import os
import signal
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

from gymlab.training.events import Feature, Updated


class Bell(gymnasium.Env):
    """Short episodes; at its `at`-th step in this process, counted over all envs, it sends SIGTERM to itself."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    at, steps = 0, 0

    def _obs(self):
        return self.np_random.random(1).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = int(self.np_random.integers(2, 6))
        return self._obs(), {}

    def step(self, action):
        Bell.steps += 1
        if Bell.steps == Bell.at:
            os.kill(os.getpid(), signal.SIGTERM)
        self.left -= 1
        return self._obs(), float(action), self.left == 0, False, {}


class Stuck(Bell):
    """Hangs in every step from the `after`-th on."""

    def __init__(self, after=100):
        self.after = after

    def step(self, action):
        if Bell.steps >= self.after:
            Path("stuck").touch()
            time.sleep(120)
        return super().step(action)


class Boom(Feature):
    """Fails at the third update."""

    name = "boom"

    def __call__(self, event, control):
        if isinstance(event, Updated) and event.clock.updates >= 3:
            raise RuntimeError(f"the feature failed {os.environ.get('MY_API_TOKEN', '')}")


for _env in (Bell, Stuck):
    if f"{_env.__name__}-v0" not in gymnasium.registry:
        gymnasium.register(f"{_env.__name__}-v0", entry_point=_env, max_episode_steps=50)
