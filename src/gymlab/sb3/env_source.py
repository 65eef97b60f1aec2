"""The envs a model trains on: an env id, or env objects."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from gymlab.core.errors import UserError
from gymlab.core.types import Spaces
from gymlab.envs.make import DEFAULT_TIME_LIMIT, limit_inside, time_limit
from gymlab.envs.ports.registry import find_port
from gymlab.envs.registry import resolve_id
from gymlab.envs.settings import EnvSettings
from gymlab.envs.step_buffer import check_supported
from gymlab.sb3.monitor import Monitor, is_monitored
from gymlab.sb3.vec_env import DummyVecEnv, VecEnv, make_vec_env, settings_of_id


@dataclass
class EnvSource:
    """An id with its kwargs (`settings`), env objects (`objects`), or both for a vec env that was made of an id."""

    n_envs: int
    settings: EnvSettings | None
    objects: VecEnv | None = None
    created: VecEnv | None = None  # from the settings, on first use
    seed: int | None = None  # of the vec env's next reset, and of its action spaces
    _ported: bool | None = None

    @property
    def vec_env(self) -> VecEnv:
        """The env objects; those of an id are made on first use."""
        if self.objects is not None:
            return self.objects
        if self.created is None:
            assert self.settings is not None
            self.created = make_vec_env(self.settings.id, self.n_envs, env_kwargs=self.settings.kwargs)
            self._seed(self.created)
        return self.created

    def seed_by(self, seed: int) -> None:
        """Seed the vec env's next reset and its envs' action spaces, from which some envs draw."""
        self.seed = seed
        if self.objects is not None:
            self._seed(self.objects)

    def _seed(self, made: VecEnv) -> None:
        if self.seed is not None:
            made.seed(self.seed)
            for i, env in enumerate(made.unchanged_envs()):
                env.action_space.seed(self.seed + i)

    @property
    def port(self) -> bool:
        """Whether there is a compiled port of the env."""
        settings = self.settings if self.objects is None else self.objects.settings
        if settings is None:
            return False
        if self._ported is None:
            self._ported = not isinstance(find_port(settings.id, settings.kwargs, None), str)
        return self._ported

    def training_settings(self, engine: str) -> EnvSettings | None:
        """The settings to build the training envs from; None if the env objects themselves are used."""
        if self.objects is None:
            return self.settings
        return self.objects.settings if engine != "gymnasium" and self.port else None

    @property
    def label(self) -> EnvSettings:
        """The settings, or for env objects just an id for messages."""
        if self.settings is not None:
            return self.settings
        first = self.vec_env.unchanged_envs()[0]
        return EnvSettings(id=first.spec.id if first.spec is not None else type(first.unwrapped).__name__)

    @property
    def time_limit(self) -> int:
        if self.objects is None:
            assert self.settings is not None
            return time_limit(self.settings)
        return limit_inside(self.objects.unchanged_envs()[0]) or DEFAULT_TIME_LIMIT

    def spaces(self) -> Spaces:
        """The spaces of env objects, without action masks: those show only at a reset, which is not made here."""
        env = self.vec_env
        check_supported(env.observation_space, env.action_space)
        return Spaces(env.observation_space, env.action_space, False, self.time_limit)


def make_source(owner: str, env: Any, n_envs: int | None = None) -> EnvSource:
    """The source from an `env` argument: an id, an env or a vec env."""
    if isinstance(env, str):
        settings = settings_of_id(env, {})
        assert settings is not None
        return EnvSource(n_envs or 1, settings)
    if n_envs is not None and n_envs != getattr(env, "num_envs", 1):
        raise UserError(f"{owner}: n_envs={n_envs} goes with an env id; for several env objects use make_vec_env")
    if isinstance(env, VecEnv):
        if own := env.overridden():
            raise UserError(
                f"{owner}: {type(env).__name__}.{own[0]} would not be called in training, which steps the envs "
                "themselves: put what it does into a gymnasium.Wrapper, e.g. make_vec_env(..., wrapper_class=...)"
            )
        return EnvSource(env.num_envs, env.settings, env)
    if isinstance(env, gymnasium.Env):
        monitored = env if is_monitored(env) else Monitor(env)
        return EnvSource(1, None, DummyVecEnv([lambda: monitored]))
    kind = type(env).__name__
    raise UserError(
        f"{owner}: env must be an id, a gymnasium.Env or a vec env of gymlab.sb3, got {kind}: see make_vec_env"
    )


def saved_source(settings: EnvSettings, n_envs: int) -> EnvSource | None:
    """The source of a saved model; None if making it could import a module that only the file names."""
    if ":" in settings.id:
        return None
    try:
        resolve_id(settings.id)
    except UserError:
        return None
    return EnvSource(n_envs, settings)


def seed_global_generators(seed: int) -> None:
    """Seed `random` and `numpy.random`, as SB3 does: some envs draw from them, which no seed of a reset reaches."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
