"""Environments and parts with one thing wrong each, for alerts to find."""

import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces

from gymlab.algorithms.ppo import PPOAlgorithm
from gymlab.training.events import Feature, Measured, Started, Updated

LENGTH = 8


class FaultyEnv(gymnasium.Env):
    """Episodes of eight steps with a seeded observation; `fault` says what is wrong."""

    def __init__(self, fault="none", length=LENGTH):
        self.fault, self.length = fault, length
        low, high = (0.0, 10.0) if fault == "off-centre" else (-1.0, 1.0)
        continuous = fault in ("off-centre", "box")
        self.action_space = spaces.Box(low, high, (1,)) if continuous else spaces.Discrete(2)
        reach = np.inf if fault == "huge" else 1.0
        self.observation_space = spaces.Box(-reach, reach, (3,))
        self._steps = 0  # of this env's whole life

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t, self._last = 0, 0
        return self._observe(), {}

    def step(self, action):
        self._t += 1
        self._steps += 1
        reward = self._reward(action)
        if self.fault == "breaks" and self._steps > 200:
            raise ValueError("the sensor is gone")
        if self.fault == "slow" and self._steps > 400:
            time.sleep(0.01)
        return self._observe(), reward, self._t >= self.length, False, {}

    def _reward(self, action):
        if self.fault == "unpaid":
            return 0.0
        if self.fault == "growing":
            return float(1.02 ** min(self._steps, 1000))
        if self.fault == "rare":
            return 1e6 if self._steps % 300 == 299 else float(self.np_random.normal())
        if self.fault == "alternate":
            changed, self._last = action != self._last, action
            return float(changed)
        return float(self.np_random.normal())

    def _observe(self):
        if self.fault == "alternate":
            return np.zeros(3, np.float32)
        obs = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return obs * {"outside": 3, "huge": 1e6}.get(self.fault, 1)


class Biased(PPOAlgorithm):
    """PPO whose policy has a favourite from the start."""

    def init(self, key, n_envs):
        state = super().init(key, n_envs)
        bias = state.params["policy_head.bias"].at[0].add(4.0)
        return state._replace(params={**state.params, "policy_head.bias": bias})


class Dead(PPOAlgorithm):
    """PPO whose hidden units give 0 whatever they see: a ReLU initialisation gone wrong."""

    def init(self, key, n_envs):
        state = super().init(key, n_envs)
        biases = {name: values - 100.0 for name, values in state.params.items() if "trunk" in name and "bias" in name}
        return state._replace(params={**state.params, **biases})


class Backwards(Feature):
    """Reports a counter that falls."""

    name = "backwards"

    def __call__(self, event, control):
        if isinstance(event, Updated):
            control.emit(Measured(event.clock, {"env/restarts": float(100 - event.clock.updates)}))


class Blocks(Feature):
    """Puts a file where a tracker wants a folder."""

    name = "blocks"

    def __init__(self, path):
        self._path = Path(path)

    def __call__(self, event, control):
        if isinstance(event, Started):
            self._path.write_text("in the way")
