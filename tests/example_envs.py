"""Small environments of the kind users write, registered on import. Each is a function of its seed and actions."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Obs = Any
Step = tuple[Obs, float, bool, bool, dict[str, Any]]


class Identity(gymnasium.Env):
    """Shows a number; naming it pays 1. The optimum is the episode's length, 32."""

    observation_space = spaces.Discrete(4)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        super().reset(seed=seed)
        self.shown = int(self.np_random.integers(4))
        return self.shown, {}

    def step(self, action) -> Step:
        reward = float(int(action) == self.shown)
        self.shown = int(self.np_random.integers(4))
        return self.shown, reward, False, False, {}


class Custom(gymnasium.Env):
    """A Dict observation and a MultiDiscrete action: name the kind, and the side of the position."""

    observation_space = spaces.Dict({"position": spaces.Box(-1.0, 1.0, (2,), np.float64), "kind": spaces.Discrete(3)})
    action_space = spaces.MultiDiscrete([3, 2])

    def _draw(self) -> dict[str, Any]:
        self.position = self.np_random.uniform(-1.0, 1.0, 2)
        self.kind = int(self.np_random.integers(3))
        return {"position": self.position, "kind": self.kind}

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        super().reset(seed=seed)
        return self._draw(), {}

    def step(self, action) -> Step:
        reward = 0.5 * (action[0] == self.kind) + 0.5 * (action[1] == (self.position[0] > 0))
        return self._draw(), float(reward), False, False, {}


class Variable(gymnasium.Env):
    """Ends by itself after 3 to 12 steps, as drawn at the reset; shows the share that is left."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        super().reset(seed=seed)
        self.length = self.left = int(self.np_random.integers(3, 13))
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.array([self.left / self.length], np.float32)

    def step(self, action) -> Step:
        self.left -= 1
        return self._obs(), 1.0, self.left == 0, False, {}


class Forever(gymnasium.Env):
    """Pays 1 for ever and looks the same at every step: its value is 1 / (1 - gamma), whatever cuts the episodes."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action) -> Step:
        return np.ones(1, np.float32), 1.0, False, False, {}


class MaskedWalk(gymnasium.Env):
    """A corridor of 5 cells with 3 actions (left, right, stay); what leads into a wall is illegal and raises."""

    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(3)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([self.cell > 0, self.cell < 4, True], np.int8)}

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(4))
        return self.cell, self._info()

    def step(self, action) -> Step:
        if not self._info()["action_mask"][action]:
            raise ValueError(f"action {action} is illegal in cell {self.cell}")
        self.cell += (-1, 1, 0)[action]
        return self.cell, float(self.cell == 4), self.cell == 4, False, self._info()


class NoWayOut(MaskedWalk):
    """Masks every action once the second cell is reached."""

    def _info(self) -> dict[str, Any]:
        return {"action_mask": super()._info()["action_mask"] * (self.cell < 2)}

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, self._info()


class Switches(gymnasium.Env):
    """A MultiBinary action: copy the lights."""

    observation_space = spaces.MultiBinary(3)
    action_space = spaces.MultiBinary(3)

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        super().reset(seed=seed)
        self.lights = self.np_random.integers(0, 2, 3, np.int8)
        return self.lights, {}

    def step(self, action) -> Step:
        reward = float(np.mean(action == self.lights))
        self.lights = self.np_random.integers(0, 2, 3, np.int8)
        return self.lights, reward, False, False, {}


class Raises(Forever):
    """Raises at step k of every episode."""

    def __init__(self, k: int = 50) -> None:
        self.k = k

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        self.steps = 0
        return super().reset(seed=seed)

    def step(self, action) -> Step:
        self.steps += 1
        if self.steps == self.k:
            raise RuntimeError("the simulator fell over")
        return super().step(action)


class NotANumber(Raises):
    """Shows NaN at step k."""

    def step(self, action) -> Step:
        self.steps += 1
        obs, reward, terminated, truncated, info = Forever.step(self, action)
        return obs * (np.nan if self.steps == self.k else 1.0), reward, terminated, truncated, info


class Slow(Forever):
    """Sleeps in every step."""

    def __init__(self, seconds: float = 0.003) -> None:
        self.seconds = seconds

    def step(self, action) -> Step:
        time.sleep(self.seconds)
        return super().step(action)


class BothEnds(Forever):
    """Claims to be terminated and truncated at once, at its third step."""

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        self.steps = 0
        return super().reset(seed=seed)

    def step(self, action) -> Step:
        self.steps += 1
        obs, reward, *_, info = super().step(action)
        return obs, reward, self.steps == 3, self.steps == 3, info


class Remembers(Variable):
    """Carries something over from one episode to the next, as no env should."""

    def __init__(self) -> None:
        self.total = 0

    def _obs(self) -> np.ndarray:
        return np.array([(self.total % 7) / 7], np.float32)

    def step(self, action) -> Step:
        self.total += 1
        return super().step(action)


class Modules(Forever):
    """Shows whether JAX is loaded in the process that steps it."""

    observation_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        super().reset(seed=seed)
        return int("jax" in sys.modules), {}

    def step(self, action) -> Step:
        return int("jax" in sys.modules), 0.0, False, False, {}


class OldStyle(gymnasium.Env):
    """Wrong in most ways an env can be wrong, for `envs check`."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def reset(self):
        return np.array([0.5, 2.0, 0.1])

    def step(self, action):
        return np.array([0.5, np.nan, 0.1]), np.array([1.0]), False, {}


class Careless(Forever):
    """The right signatures with the wrong contents: own random numbers, a bad shape later on, flags that are ints."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        return np.random.default_rng().uniform(0, 2, 2).astype(np.float32), {}

    def step(self, action) -> Step:
        return np.random.default_rng().uniform(0, 2, 2), 1, 0, 0, {}  # type: ignore[return-value]


class Shrinks(Forever):
    """Its second observation has another shape than its space."""

    def step(self, action) -> Step:
        return np.ones(3, np.float32), 1.0, False, False, {}


class Faulty(gymnasium.Env):
    """Shows its random number and its step, and fails at step k of the episodes that its seed draws, in one of `WAYS`.

    With `once` (the path of a file) only the first of all faults, in any process, happens.
    """

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, way: str = "raise", k: int = 5, share: float = 1.0, once: str | None = None) -> None:
        self.way, self.k, self.share, self.once = way, k, share, once

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        super().reset(seed=seed)
        self.steps, self.draw = 0, self.np_random.random(dtype=np.float32)
        self.fails = bool(self.np_random.random() < self.share)
        if self.way == "reset" and self.fails and self._happens():
            raise RuntimeError("no reset today")
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return np.array([self.draw, self.steps / 100], np.float32)

    def _happens(self) -> bool:
        if self.once is None:
            return True
        try:
            os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def step(self, action) -> Step:
        self.steps += 1
        obs, reward = self._obs(), float(action)
        if self.way != "reset" and self.fails and self.steps == self.k and self._happens():
            fault = WAYS[self.way]()
            obs, reward = (obs, fault) if self.way == "reward" else (fault, reward)
        return obs, reward, self.steps == 40, False, {}


class Trips(gymnasium.Wrapper):
    """Raises at step k of one episode in eight, as its seed says."""

    def __init__(self, env: gymnasium.Env, k: int = 15) -> None:
        super().__init__(env)
        self.k = k

    def reset(self, *, seed=None, options=None) -> tuple[Obs, dict]:
        self.trips, self.steps = seed is not None and seed % 8 == 0, 0
        return super().reset(seed=seed, options=options)

    def step(self, action) -> Step:
        self.steps += 1
        if self.trips and self.steps == self.k:
            _raise()
        return super().step(action)


def _raise() -> None:
    raise RuntimeError("the simulator fell over")


WAYS = {
    "raise": _raise,
    "hang": lambda: time.sleep(3600),
    "spin": lambda: sum(range(10**13)),  # in C code that keeps the interpreter to itself
    "exit": lambda: os._exit(3),
    "nan": lambda: np.full(2, np.nan, np.float32),
    "infinity": lambda: np.array([0.0, np.inf], np.float32),
    "shape": lambda: np.zeros(1, np.float32),  # which NumPy would broadcast
    "dtype": lambda: np.zeros(2, np.complex64),
    "reward": lambda: float("nan"),
    "reset": lambda: None,
}


_LIMITS = {
    "BothEnds": (BothEnds, None),
    "Custom": (Custom, 32),
    "Faulty": (Faulty, 100),
    "Forever": (Forever, 10),
    "Identity": (Identity, 32),
    "Masked": (MaskedWalk, 20),
    "Modules": (Modules, 10),
    "NoWayOut": (NoWayOut, 20),
    "NotANumber": (NotANumber, 200),
    "Raises": (Raises, 200),
    "Remembers": (Remembers, 100),
    "Shrinks": (Shrinks, 10),
    "Slow": (Slow, 10),
    "Switches": (Switches, 16),
    "Variable": (Variable, 100),
}

for _name, (_env, _limit) in _LIMITS.items():
    if f"{_name}-v0" not in gymnasium.registry:
        gymnasium.register(f"{_name}-v0", entry_point=f"{__name__}:{_env.__name__}", max_episode_steps=_limit)
