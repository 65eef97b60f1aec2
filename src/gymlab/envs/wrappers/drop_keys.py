"""`drop_keys: [mission]`: entries of a Dict observation that the policy does not see."""

from __future__ import annotations

import gymnasium
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from gymlab.core.errors import suggestion
from gymlab.core.types import Space
from gymlab.envs.gymnasium_types import Env, EnvValue, EnvWrapper, Info, ResetResult, StepResult
from gymlab.envs.observation_spaces import is_supported_leaf


class DropKeys(EnvWrapper, RecordConstructorArgs):
    """All other entries stay as they are. `outer.inner` names an entry of a Dict in the Dict."""

    def __init__(self, env: Env, keys: str | list[str] | tuple[str, ...]) -> None:
        names = named_keys(env.observation_space, keys)
        RecordConstructorArgs.__init__(self, keys=names)
        self._drop(env, names)

    def _drop(self, env: Env, names: list[str]) -> None:
        gymnasium.Wrapper.__init__(self, env)
        self._dropped = set(names)
        space = _space_without(env.observation_space, self._dropped)
        if space is None:
            raise ValueError(f"keys={names} leaves nothing of the observation {env.observation_space}")
        self.observation_space = space

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> ResetResult:
        obs, info = self.env.reset(seed=seed, options=options)
        return _value_without(obs, self._dropped), info

    def step(self, action: EnvValue) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return _value_without(obs, self._dropped), reward, terminated, truncated, info


class HideUnsupported(DropKeys):
    """Drops what no policy can be shown, such as text; made by `hide_unsupported`."""

    @property
    def note(self) -> str:
        """A message for the user."""
        keys: list[str] = self._saved_kwargs["keys"]
        leaves = [f"{name} ({_kind(self.env.observation_space, name)})" for name in keys]
        return f"not shown to the policy: observation keys {', '.join(leaves)}"


def hide_unsupported(env: Env) -> Env:
    """The env without the entries of its Dict observation that are of no supported kind.

    The env itself where there are none, or where nothing would be left.
    """
    hidden = _unsupported_keys(env.observation_space)
    if not hidden or _space_without(env.observation_space, set(hidden)) is None:
        return env
    return HideUnsupported(env, hidden)


def named_keys(space: Space, keys: str | list[str] | tuple[str, ...]) -> list[str]:
    """The keys of a wrapper's argument; ValueError where the observation has no such entry."""
    names = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(space, spaces.Dict):
        raise ValueError(f"it needs a Dict observation, got {space}")
    known = all_keys(space)
    for name in names:
        if name not in known:
            raise ValueError(f"the observation has no key {name!r}: {suggestion(str(name), known)}")
    if not names:
        raise ValueError(f"name at least one of the keys {', '.join(known)}")
    return names


def all_keys(space: spaces.Dict, prefix: str = "") -> list[str]:
    """The entries of a Dict, each followed by those inside it."""
    found = []
    for key, inner in space.spaces.items():
        found.append(f"{prefix}{key}")
        if isinstance(inner, spaces.Dict):
            found += all_keys(inner, f"{prefix}{key}.")
    return found


def _unsupported_keys(space: Space, prefix: str = "") -> list[str]:
    if not isinstance(space, spaces.Dict):
        return []
    found = []
    for key, inner in space.spaces.items():
        if isinstance(inner, spaces.Dict):
            found += _unsupported_keys(inner, f"{prefix}{key}.")
        elif not isinstance(inner, spaces.Tuple) and not is_supported_leaf(inner):
            found.append(f"{prefix}{key}")
    return found


def _space_without(space: Space, dropped: set[str], prefix: str = "") -> spaces.Dict | None:
    """None where nothing is left."""
    assert isinstance(space, spaces.Dict), "`named_keys` lets no other through"
    kept: dict[str, Space] = {}
    for key, inner in space.spaces.items():
        path = f"{prefix}{key}"
        if path in dropped:
            continue
        part = _space_without(inner, dropped, f"{path}.") if isinstance(inner, spaces.Dict) else inner
        if part is None:
            dropped.add(path)
        else:
            kept[key] = part
    return spaces.Dict(kept) if kept else None


def _value_without(obs: EnvValue, dropped: set[str], prefix: str = "") -> EnvValue:
    """What is no dict is for the engine to refuse, which knows the space."""
    if not isinstance(obs, dict):
        return obs
    return {
        key: _value_without(value, dropped, f"{prefix}{key}.")
        for key, value in obs.items()
        if f"{prefix}{key}" not in dropped
    }


def _kind(space: Space, name: str) -> str:
    for key in name.split("."):
        assert isinstance(space, spaces.Dict)
        space = space[key]
    return type(space).__name__
