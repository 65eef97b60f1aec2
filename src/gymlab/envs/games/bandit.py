"""Bandit-v0: a multi-armed Gaussian bandit, the smallest problem worth learning."""

from __future__ import annotations

import math
from dataclasses import dataclass

import gymnasium
import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.envs.gymnasium_types import Info

EPISODE_STEPS = 20


@dataclass(frozen=True)
class Arms:
    """The rules, shared with the compiled port."""

    n_arms: int = 10
    seed: int = 0  # of the arm means: they are the same in every episode and every env
    noise: float = 1.0  # standard deviation of a reward around its arm's mean
    drift: float = 0.0  # standard deviation of each mean's random walk per pull; forgotten at the next episode

    def __post_init__(self) -> None:
        if self.n_arms < 1:
            raise UserError(f"Bandit-v0: n_arms={self.n_arms} must be at least 1")
        if self.seed < 0:
            raise UserError(f"Bandit-v0: seed={self.seed} must be at least 0")
        for name, value in (("noise", self.noise), ("drift", self.drift)):
            if not 0 <= value < math.inf:
                raise UserError(f"Bandit-v0: {name}={value} must be a number of at least 0")

    def means(self) -> np.ndarray:
        """(n_arms,) drawn from a standard normal distribution."""
        return np.random.default_rng(self.seed).normal(size=self.n_arms)


class BanditEnv(gymnasium.Env[np.int64, np.int64]):
    """Pull one of `n_arms` per step; there is nothing to see. `info["best_arm"]` is the one to pull next."""

    metadata: Info = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(self, n_arms: int = 10, seed: int = 0, noise: float = 1.0, drift: float = 0.0) -> None:
        self.arms = Arms(n_arms, seed, noise, drift)
        self.means = self.arms.means()
        self.observation_space = spaces.Discrete(1)
        self.action_space = spaces.Discrete(n_arms)
        self.render_mode = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[np.int64, Info]:
        super().reset(seed=seed, options=options)
        self.means = self.arms.means()
        return np.int64(0), self._info()

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, Info]:
        reward = self.means[action] + self.arms.noise * self.np_random.normal()
        if self.arms.drift:
            self.means = self.means + self.arms.drift * self.np_random.normal(size=self.arms.n_arms)
        return np.int64(0), float(reward), False, False, self._info()

    def _info(self) -> Info:
        return {"best_arm": int(np.argmax(self.means))}
