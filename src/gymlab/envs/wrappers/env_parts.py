"""`env_parts: {forward: reward_forward, control: reward_ctrl}`: parts of the reward that the env names in its info."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from gymlab.core.types import Array, Space, Tree, VecStep
from gymlab.envs.gymnasium_types import Env, EnvValue, EnvWrapper, Info, ResetResult, StepResult
from gymlab.envs.reward_shaping import ENV
from gymlab.envs.settings import EnvKwargs
from gymlab.envs.transform import map_observations, unmasked

_ENTRY = "reward parts"


class EnvParts(EnvWrapper, RecordConstructorArgs):
    """Each becomes a part of the training reward under its name here; what they leave of the reward is `env`.

    Infos do not leave the envs, so the numbers travel inside the observation, from which `TakeParts` takes them again.
    """

    def __init__(self, env: Env, **keys: str) -> None:
        arguments: EnvKwargs = dict(keys)
        RecordConstructorArgs.__init__(self, **arguments)
        gymnasium.Wrapper.__init__(self, env)
        if not keys or ENV in keys or not all(isinstance(key, str) for key in keys.values()):
            raise ValueError(f"give keys of the env's info by name, such as forward: reward_forward, got {keys}")
        self._keys = list(keys.values())
        numbers = spaces.Box(-np.inf, np.inf, (len(keys),), np.float32)
        self.observation_space = spaces.Dict({"obs": env.observation_space, _ENTRY: numbers})

    @staticmethod
    def extra_transforms(options: EnvKwargs) -> list[TakeParts]:
        return [TakeParts(tuple(options))]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        obs, info = self.env.reset(seed=seed, options=options)
        return {"obs": obs, _ENTRY: np.zeros(len(self._keys), np.float32)}, info

    def step(self, action: EnvValue) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        parts = np.array([info[key] for key in self._keys], np.float32)
        return {"obs": obs, _ENTRY: parts}, reward, terminated, truncated, info


@dataclass(frozen=True)
class TakeParts:
    """The transform that belongs to EnvParts."""

    adds: tuple[str, ...]
    random: ClassVar[bool] = False

    def space(self, space: Space) -> Space:
        assert isinstance(space, spaces.Dict), "EnvParts makes one"
        return space["obs"]

    def init(self, n: int) -> Tree:  # noqa: ARG002 - no memory
        return ()

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        paid = unmasked(step.successor)[_ENTRY]
        parts = {name: paid[:, index] for index, name in enumerate(self.adds)}
        rest = step.train_reward - paid.sum(axis=1)
        return state, map_observations(step, lambda obs: obs["obs"])._replace(components={ENV: rest, **parts})
