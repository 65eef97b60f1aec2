"""Stable-Baselines3's vectorised envs (one `dones` array, automatic resets), and `make_vec_env`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from gymlab.core.errors import UserError
from gymlab.core.types import Space
from gymlab.envs.gymnasium_types import Env
from gymlab.envs.make import make_env
from gymlab.envs.registry import resolve_id
from gymlab.envs.settings import EnvSettings
from gymlab.sb3.monitor import Monitor, has_wrapper

Obs = Any
Infos = list[dict[str, Any]]
StepResult = tuple[Obs, np.ndarray, np.ndarray, Infos]
EnvMaker = Callable[[], Env]
Kwargs = dict[str, Any]
Indices = int | Iterable[int] | None


class VecEnv:
    """Several envs of one process. `step` gives obs, rewards, dones and infos; where an episode ended, the obs is the
    next one's first, and the info holds `terminal_observation` and `TimeLimit.truncated`.
    """

    def __init__(self, env_fns: Sequence[EnvMaker], *spaces: Any) -> None:
        if isinstance(env_fns, int):
            raise UserError(
                f"{type(self).__name__}: VecEnv(num_envs, observation_space, action_space) is not taken: a batched "
                "simulator cannot be trained on yet. Give a list of functions that make a gymnasium.Env each"
            )
        if spaces:
            raise UserError(f"{type(self).__name__} takes a list of functions that make an env, and nothing else")
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
        self.settings: EnvSettings | None = None  # while the envs are exactly those of a registered id

    @property
    def envs(self) -> list[Env]:
        """The env objects. The caller may change them, so training then uses these objects, not their id."""
        self.settings = None
        return self._envs

    def unchanged_envs(self) -> list[Env]:
        """The env objects, for callers that only step them."""
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
        observations = []
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
            observations.append(obs)
            infos.append(info)
        return _stack(self.observation_space, observations), rewards, dones, infos

    @classmethod
    def overridden(cls) -> list[str]:
        """The methods around stepping that a subclass defines itself; training, which steps the envs, calls none."""
        names = ("reset", "step", "step_async", "step_wait")
        return [name for name in names if getattr(cls, name) is not getattr(VecEnv, name)]

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seeds for the next reset: `seed`, `seed + 1`, ..."""
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31))
        self._seeds = [seed + i for i in range(self.num_envs)]
        return self._seeds

    def set_options(self, options: dict[str, Any] | list[dict[str, Any]] | None = None) -> None:
        """Options of the next reset."""
        each = options if isinstance(options, list) else [options or {}] * self.num_envs
        self._options = [dict(one) for one in each]

    def render(self, mode: str | None = None) -> np.ndarray | None:
        """Draw all envs in one picture: on the screen for "human", else as an array."""
        mode = mode or self.render_mode
        if mode is None or self.render_mode is None:
            warnings.warn("nothing to render: make the envs with render_mode='rgb_array'", UserWarning, stacklevel=2)
            return None
        if self.render_mode == "human":
            for env in self._envs:
                env.render()
            return None
        picture = _tiled([image for image in self.get_images() if image is not None])
        if mode != "human":
            return picture
        _show(picture)
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
        self.settings = None
        for env in self._some(indices):
            env.set_wrapper_attr(attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Indices = None, **kwargs: Any) -> list[Any]:
        """Call a method of some envs."""
        self.settings = None
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
    """Takes SB3's arguments, but steps the envs in this process, with a warning."""

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


def make_vec_env(
    env_id: str | type[Env] | Callable[..., Env],
    n_envs: int = 1,
    seed: int | None = None,
    start_index: int = 0,
    monitor_dir: str | None = None,
    wrapper_class: Callable[..., Env] | None = None,
    env_kwargs: Kwargs | None = None,
    vec_env_cls: type[VecEnv] | None = None,
    vec_env_kwargs: Kwargs | None = None,
    monitor_kwargs: Kwargs | None = None,
    wrapper_kwargs: Kwargs | None = None,
) -> VecEnv:
    """Several monitored envs, stepped together. Of a plain id, a model trains on the compiled port if there is one."""
    if n_envs < 1:
        raise UserError(f"make_vec_env: n_envs={n_envs} must be at least 1")

    def maker(rank: int) -> EnvMaker:
        return lambda: make(rank)

    def make(rank: int) -> Env:
        env = _make_one(env_id, dict(env_kwargs or {}))
        if seed is not None:
            env.action_space.seed(seed + rank)
        file = None if monitor_dir is None else str(Path(monitor_dir) / str(rank))
        env = Monitor(env, filename=file, **(monitor_kwargs or {}))
        return env if wrapper_class is None else wrapper_class(env, **(wrapper_kwargs or {}))

    cls = vec_env_cls or DummyVecEnv
    makers = [maker(rank) for rank in range(start_index, start_index + n_envs)]
    made = cls(makers, **(vec_env_kwargs or {}))
    made.seed(seed)
    if isinstance(env_id, str) and wrapper_class is None and monitor_dir is None:
        made.settings = settings_of_id(env_id, env_kwargs or {})
    return made


def settings_of_id(env_id: str, kwargs: Kwargs) -> EnvSettings | None:
    """The settings that make the same env; None for render mode `human`, which needs the env object."""
    if kwargs.get("render_mode") == "human":
        return None
    resolved = resolve_id(env_id)
    own = {name: value for name, value in {**resolved.kwargs, **kwargs}.items() if name != "render_mode"}
    return EnvSettings(id=resolved.id, kwargs=own)


def _make_one(env_id: Any, kwargs: Kwargs) -> Env:
    if isinstance(env_id, str):
        return _registered(env_id, kwargs)
    try:
        env = env_id(**{"render_mode": "rgb_array", **kwargs})
    except TypeError:
        env = env_id(**kwargs)
    if not isinstance(env, gymnasium.Env):
        raise UserError(f"make_vec_env: {env_id!r} gave a {type(env).__name__}, not a gymnasium.Env")
    return env


def _registered(env_id: str, kwargs: Kwargs) -> Env:
    """An env by id, able to draw itself where it can."""
    mode = kwargs.pop("render_mode", None)
    settings = EnvSettings(id=env_id, kwargs=kwargs)
    if mode is not None:
        return make_env(settings, render_mode=mode)
    try:
        return make_env(settings, render_mode="rgb_array")
    except UserError:
        return make_env(settings)


def _stack(space: Space, values: list[Any]) -> Obs:
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


def _show(picture: np.ndarray) -> None:
    """Draw an RGB picture into a window of its size (extra `render`)."""
    try:
        import pygame
    except ImportError as error:
        raise UserError("drawing on the screen needs an extra package: pip install 'gymlab[render]'") from error
    size = (picture.shape[1], picture.shape[0])
    if not pygame.display.get_init():
        pygame.display.init()
    window = pygame.display.get_surface()
    if window is None or window.get_size() != size:
        window = pygame.display.set_mode(size)
    pygame.surfarray.blit_array(window, picture.swapaxes(0, 1))
    pygame.event.pump()
    pygame.display.flip()
