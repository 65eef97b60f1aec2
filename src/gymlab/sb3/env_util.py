"""`make_vec_env`: several envs from an id, a class or a function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

from gymlab.core.errors import UserError
from gymlab.envs.make import make_env
from gymlab.envs.registry import resolve_id
from gymlab.envs.settings import EnvSettings
from gymlab.sb3.monitor import Env, Monitor
from gymlab.sb3.vec_env import DummyVecEnv, EnvMaker, VecEnv

Kwargs = dict[str, Any]


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
        made.plain = plain_settings(env_id, env_kwargs or {})
    return made


def plain_settings(env_id: str, kwargs: Kwargs) -> EnvSettings | None:
    """The settings that make the same env, unless it is to be watched while it trains."""
    if kwargs.get("render_mode") == "human":
        return None
    resolved = resolve_id(env_id)
    kept = {name: value for name, value in {**resolved.kwargs, **kwargs}.items() if name != "render_mode"}
    return EnvSettings(id=resolved.id, kwargs=kept)


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
