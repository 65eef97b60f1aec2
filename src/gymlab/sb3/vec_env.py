"""Stable-Baselines3's vectorised envs: `dones` instead of two flags, and a reset that comes by itself."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.envs.settings import EnvSettings
from gymlab.sb3.monitor import Env, has_wrapper

Obs = Any
Infos = list[dict[str, Any]]
StepResult = tuple[Obs, np.ndarray, np.ndarray, Infos]
EnvMaker = Callable[[], Env]
Indices = int | Iterable[int] | None


class VecEnv:
    """Several envs of one process. `step` gives obs, rewards, dones and infos; where an episode ended, the obs is the
    next one's first, and the info holds `terminal_observation` and `TimeLimit.truncated`.
    """

    def __init__(self, env_fns: Sequence[EnvMaker]) -> None:
        if not env_fns or not all(callable(make) for make in env_fns):
            raise UserError(f"{type(self).__name__} takes a list of functions that make an env: [lambda: env]")
        self._envs = [make() for make in env_fns]
        if len({id(env.unwrapped) for env in self._envs}) < len(self._envs):
            raise UserError(
                f"{type(self).__name__}: two functions gave the same env object: each must make one of its own"
            )
        self.num_envs = len(self._envs)
        first = self._envs[0]
        self.observation_space = first.observation_space
        self.action_space = first.action_space
        self.render_mode = first.render_mode
        self.metadata = first.metadata
        self.reset_infos: Infos = [{} for _ in self._envs]
        self._seeds: list[int | None] = [None] * self.num_envs
        self._options: list[dict[str, Any]] = [{} for _ in self._envs]
        self._actions: Any = None
        self.plain: EnvSettings | None = None  # set while these envs are just what an id gives

    @property
    def envs(self) -> list[Env]:
        """The env objects. Who has them may change them, so they are then trained on as they are."""
        self.plain = None
        return self._envs

    def lend(self) -> list[Env]:
        """The env objects, to someone who only steps them."""
        return self._envs

    def reset(self) -> Obs:
        """The first observations of new episodes."""
        first = []
        for i, env in enumerate(self._envs):
            options = {"options": self._options[i]} if self._options[i] else {}
            obs, self.reset_infos[i] = env.reset(seed=self._seeds[i], **options)
            first.append(obs)
        self._seeds = [None] * self.num_envs
        self._options = [{} for _ in self._envs]
        return _stack(self.observation_space, first)

    def step(self, actions: Any) -> StepResult:
        """One step of every env."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Take the actions; `step_wait` does the work."""
        if len(actions) != self.num_envs:
            raise UserError(f"{self.num_envs} envs need as many actions, got {len(actions)}")
        self._actions = actions

    def step_wait(self) -> StepResult:
        """What the actions of `step_async` led to."""
        shown = []
        infos = []
        rewards = np.zeros(self.num_envs, np.float32)
        dones = np.zeros(self.num_envs, bool)
        for i, (env, action) in enumerate(zip(self._envs, self._actions, strict=True)):
            obs, rewards[i], terminated, truncated, info = env.step(action)
            dones[i] = terminated or truncated
            info = {**info, "TimeLimit.truncated": bool(truncated and not terminated)}
            if dones[i]:
                info["terminal_observation"] = obs
                obs, self.reset_infos[i] = env.reset()
            shown.append(obs)
            infos.append(info)
        return _stack(self.observation_space, shown), rewards, dones, infos

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seeds for the next reset: `seed`, `seed + 1`, ..."""
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31))
        self._seeds = [seed + i for i in range(self.num_envs)]
        return self._seeds

    def set_options(self, options: dict[str, Any] | list[dict[str, Any]] | None = None) -> None:
        """Options of the next reset."""
        given = options if isinstance(options, list) else [options or {}] * self.num_envs
        self._options = [dict(each) for each in given]

    def render(self, mode: str | None = None) -> np.ndarray | None:
        """Draw all envs in one picture: on the screen for "human", else as an array."""
        wanted = mode or self.render_mode
        if wanted is None or self.render_mode is None:
            warnings.warn("nothing to render: make the envs with render_mode='rgb_array'", UserWarning, stacklevel=2)
            return None
        if self.render_mode == "human":
            for env in self._envs:
                env.render()
            return None
        picture = _tiled([image for image in self.get_images() if image is not None])
        if wanted != "human":
            return picture
        from gymlab.sb3.screen import show

        show(picture)
        return None

    def get_images(self) -> Sequence[np.ndarray | None]:
        """What each env draws."""
        return [np.asarray(env.render()) if env.render_mode == "rgb_array" else None for env in self._envs]

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of some envs (of all by default), looked up through their wrappers."""
        return [env.get_wrapper_attr(attr_name) for env in self._some(indices)]

    def has_attr(self, attr_name: str) -> bool:
        return all(env.has_wrapper_attr(attr_name) for env in self._envs)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute where it is, or on the env itself."""
        self.plain = None
        for env in self._some(indices):
            env.set_wrapper_attr(attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Indices = None, **kwargs: Any) -> list[Any]:
        """Call a method of some envs."""
        self.plain = None
        return [env.get_wrapper_attr(method_name)(*args, **kwargs) for env in self._some(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        return [has_wrapper(env, wrapper_class) for env in self._some(indices)]

    def _some(self, indices: Indices) -> list[Env]:
        if indices is None:
            return self._envs
        return [self._envs[i] for i in ([indices] if isinstance(indices, int) else indices)]

    @property
    def unwrapped(self) -> VecEnv:
        return self


class DummyVecEnv(VecEnv):
    """Envs stepped one after the other in this process."""


class SubprocVecEnv(VecEnv):
    """Takes SB3's arguments and steps the envs in this process too: it says so once."""

    def __init__(self, env_fns: Sequence[EnvMaker], start_method: str | None = None) -> None:
        del start_method
        super().__init__(env_fns)
        warnings.warn(
            "SubprocVecEnv steps its envs in this process: spawned envs are a recipe's `vectorization: processes`",
            UserWarning,
            stacklevel=2,
        )


def as_vec_env(env: Any) -> VecEnv:
    """A vec env as it is, or one around a single env."""
    if isinstance(env, VecEnv):
        return env
    if isinstance(env, gymnasium.Env):
        return DummyVecEnv([lambda: env])
    raise UserError(f"expected an env or a vec env of gymlab.sb3, got {type(env).__name__}")


def _stack(space: Any, values: list[Any]) -> Obs:
    if isinstance(space, spaces.Dict):
        return {name: _stack(part, [value[name] for value in values]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_stack(part, [value[i] for value in values]) for i, part in enumerate(space.spaces))
    return np.stack([np.asarray(value, space.dtype) for value in values])


def _tiled(images: list[np.ndarray]) -> np.ndarray:
    """All images in one, as square as can be."""
    columns = math.ceil(math.sqrt(len(images)))
    blank = np.zeros_like(images[0])
    images = [*images, *[blank] * (-len(images) % columns)]
    rows = [np.concatenate(images[i : i + columns], axis=1) for i in range(0, len(images), columns)]
    return np.concatenate(rows, axis=0)
