"""`env_parts: {forward: reward_forward, control: reward_ctrl}`: parts of the reward that the env names in its info."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from gymlab.core.types import Array, Tree, VecStep
from gymlab.envs.reward_shaping import ENV
from gymlab.envs.transform import map_observations, unmasked

_ENTRY = "reward parts"


class EnvParts(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Each becomes a part of the training reward under its name here; what they leave of the reward is `env`.

    Infos do not leave the envs, so the numbers travel inside the observation, from which `TakeParts` takes them again.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], **keys: Any) -> None:
        RecordConstructorArgs.__init__(self, **keys)
        gymnasium.Wrapper.__init__(self, env)
        if not keys or ENV in keys or not all(isinstance(key, str) for key in keys.values()):
            raise ValueError(f"give keys of the env's info by name, such as forward: reward_forward, got {keys}")
        self._keys = list(keys.values())
        numbers = spaces.Box(-np.inf, np.inf, (len(keys),), np.float32)
        self.observation_space = spaces.Dict({"obs": env.observation_space, _ENTRY: numbers})

    @staticmethod
    def extra_transforms(options: dict[str, Any]) -> list[TakeParts]:
        return [TakeParts(tuple(options))]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        return {"obs": obs, _ENTRY: np.zeros(len(self._keys), np.float32)}, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        parts = np.array([info[key] for key in self._keys], np.float32)
        return {"obs": obs, _ENTRY: parts}, reward, terminated, truncated, info


@dataclass(frozen=True)
class TakeParts:
    """The transform that belongs to EnvParts."""

    adds: tuple[str, ...]
    random: ClassVar[bool] = False

    def space(self, space: Any) -> Any:
        return space["obs"]

    def init(self, n: int) -> Tree:  # noqa: ARG002 - no memory
        return ()

    def apply(self, state: Tree, step: VecStep, key: Array | None = None) -> tuple[Tree, VecStep]:  # noqa: ARG002
        paid = unmasked(step.successor)[_ENTRY]
        parts = {name: paid[:, index] for index, name in enumerate(self.adds)}
        rest = step.train_reward - paid.sum(axis=1)
        return state, map_observations(step, lambda obs: obs["obs"])._replace(components={ENV: rest, **parts})
