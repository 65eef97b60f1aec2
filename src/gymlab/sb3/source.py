"""What a model trains on: an env by its id, or env objects given from Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium

from gymlab.core.errors import UserError
from gymlab.core.types import Spaces
from gymlab.envs.make import DEFAULT_TIME_LIMIT, limit_inside, time_limit
from gymlab.envs.ports.registry import find_port
from gymlab.envs.registry import resolve_id
from gymlab.envs.settings import EnvSettings
from gymlab.envs.step_buffer import check_supported
from gymlab.sb3.env_util import make_vec_env, plain_settings
from gymlab.sb3.monitor import Monitor, is_monitored
from gymlab.sb3.vec_env import DummyVecEnv, VecEnv


@dataclass
class Source:
    """An id with its kwargs (`settings`), env objects (`given`), or both where a vec env was made of an id."""

    n_envs: int
    settings: EnvSettings | None
    given: VecEnv | None = None
    made: VecEnv | None = None  # of the settings, when someone asked for it
    _ported: bool | None = None

    @property
    def vec_env(self) -> VecEnv:
        """The env objects; those of an id are made when first asked for."""
        if self.given is not None:
            return self.given
        if self.made is None:
            assert self.settings is not None
            self.made = make_vec_env(self.settings.id, self.n_envs, env_kwargs=self.settings.kwargs)
        return self.made

    @property
    def port(self) -> bool:
        """Whether a compiled env does the same."""
        plain = self.settings if self.given is None else self.given.plain
        if plain is None:
            return False
        if self._ported is None:
            self._ported = not isinstance(find_port(plain.id, plain.kwargs, None), str)
        return self._ported

    def plain(self, engine: str) -> EnvSettings | None:
        """The settings to train by, or None where the env objects are to be used themselves."""
        if self.given is None:
            return self.settings
        return self.given.plain if engine != "gymnasium" and self.port else None

    @property
    def label(self) -> EnvSettings:
        """Settings for env objects: a name for messages."""
        if self.settings is not None:
            return self.settings
        first = self.vec_env.lend()[0]
        return EnvSettings(id=first.spec.id if first.spec is not None else type(first.unwrapped).__name__)

    @property
    def time_limit(self) -> int:
        if self.given is None:
            assert self.settings is not None
            return time_limit(self.settings)
        return limit_inside(self.given.lend()[0]) or DEFAULT_TIME_LIMIT

    def spaces(self) -> Spaces:
        """The spaces of env objects. Whether actions are masked shows at a reset, which is not ours to make yet."""
        env = self.vec_env
        check_supported(env.observation_space, env.action_space)
        return Spaces(env.observation_space, env.action_space, False, self.time_limit)


def make_source(owner: str, env: Any, n_envs: int | None = None) -> Source:
    """A source from whatever a user gives as `env`."""
    if isinstance(env, str):
        settings = plain_settings(env, {})
        assert settings is not None
        return Source(n_envs or 1, settings)
    if n_envs is not None and n_envs != getattr(env, "num_envs", 1):
        raise UserError(f"{owner}: n_envs={n_envs} goes with an env id; for several env objects use make_vec_env")
    if isinstance(env, VecEnv):
        return Source(env.num_envs, env.plain, env)
    if isinstance(env, gymnasium.Env):
        monitored = env if is_monitored(env) else Monitor(env)
        return Source(1, None, DummyVecEnv([lambda: monitored]))
    kind = type(env).__name__
    raise UserError(
        f"{owner}: env must be an id, a gymnasium.Env or a vec env of gymlab.sb3, got {kind}: see make_vec_env"
    )


def rebuilt(settings: EnvSettings, n_envs: int) -> Source | None:
    """The source of a saved model, unless making it could run code that only the file names."""
    if ":" in settings.id:
        return None
    try:
        resolve_id(settings.id)
    except UserError:
        return None
    return Source(n_envs, settings)
