"""`keep_keys: [image]`: the entries of a Dict observation that the policy sees."""

from __future__ import annotations

from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from gymlab.envs.gymnasium_types import Env
from gymlab.envs.wrappers.drop_keys import DropKeys, all_keys, named_keys


class KeepKeys(DropKeys):
    """All others are dropped. `outer.inner` names an entry of a Dict in the Dict."""

    def __init__(self, env: Env, keys: str | list[str] | tuple[str, ...]) -> None:
        space = env.observation_space
        kept = named_keys(space, keys)
        assert isinstance(space, spaces.Dict), "`named_keys` lets no other through"
        RecordConstructorArgs.__init__(self, keys=kept)
        self._drop(env, [name for name in all_keys(space) if not _belongs(name, kept)])


def _belongs(name: str, kept: list[str]) -> bool:
    """Whether an entry is kept, is inside one that is, or has one inside."""
    return any(f"{name}.".startswith(f"{key}.") or f"{key}.".startswith(f"{name}.") for key in kept)
