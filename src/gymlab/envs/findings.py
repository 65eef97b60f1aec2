"""Looking at what an env's reset and step give back, for `envs check`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces

from gymlab.envs.buffers import BadObservation, checked_leaf

Level = Literal["ok", "warn", "error"]
Found = Callable[[Level, str, str, str], None]  # (level, title, detail, fix)
RESET_FIX = "def reset(self, *, seed=None, options=None): super().reset(seed=seed); ...; return obs, info"
STEP_FIX = "return obs, float(reward), bool(terminated), bool(truncated), info"


class Finding(NamedTuple):
    """One thing that was looked at."""

    level: Level
    title: str
    detail: str
    fix: str = ""


def begin(env: Any, found: Found) -> tuple[Any, Any]:
    """Reset, going on as well as possible where the env does it in an old way."""
    try:
        given = env.reset(seed=1)
    except TypeError as error:
        if "'seed'" not in str(error):
            raise
        found("error", "seed", f"reset does not take one: {error}", RESET_FIX)
        given = env.reset()
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict):
        return given
    found("error", "reset", f"it returned {_kind(given)}, not (obs, info)", RESET_FIX)
    return (given[0] if isinstance(given, tuple) and given else given), {}


def advance(env: Any, action: Any, found: Found) -> tuple[Any, Any, Any, Any, Any]:
    """Step, likewise."""
    given = env.step(action)
    if isinstance(given, tuple) and len(given) == 5:
        return given
    found("error", "step", f"it returned {_kind(given)}, not 5 values", STEP_FIX)
    if isinstance(given, tuple) and len(given) == 4:
        return given[0], given[1], bool(given[2]), False, given[3]
    raise ValueError("nothing more can be checked")


def _kind(value: Any) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"one {type(value).__name__}"


def sample(env: Any, info: Any) -> Any:
    """A random action, legal where the env says what is."""
    if isinstance(info, dict) and "action_mask" in info and isinstance(env.action_space, spaces.Discrete):
        return env.action_space.sample(np.asarray(info["action_mask"], np.int8))
    return env.action_space.sample()


def look(space: Any, obs: Any, name: str, found: Found) -> None:
    """Compare an observation with its space: shape, dtype, numbers, bounds."""
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict) or set(obs) != set(space.spaces):
            given = sorted(obs) if isinstance(obs, dict) else type(obs).__name__
            found(
                "error", "observation keys", f"{name} has {given}, the space {sorted(space.spaces)}", "return every key"
            )
            return
        for key, inner in space.spaces.items():
            look(inner, obs[key], f"{name}['{key}']", found)
        return
    if isinstance(space, spaces.Tuple):
        if not isinstance(obs, tuple) or len(obs) != len(space.spaces):
            found("error", "observation keys", f"{name} is {_kind(obs)}", f"return a tuple of {len(space.spaces)}")
            return
        for i, inner in enumerate(space.spaces):
            look(inner, obs[i], f"{name}[{i}]", found)
        return
    try:
        array = checked_leaf(space, obs, name)
    except BadObservation as error:
        title = "NaN" if "NaN" in str(error) else "observation"
        fix = "find the division or the log that makes it" if title == "NaN" else "make space and observation agree"
        found("error", title, str(error), fix)
        return
    if isinstance(space, spaces.Box):
        if array.dtype != space.dtype:
            fix = f"return np.asarray(obs, np.{space.dtype})"
            found("warn", "dtype", f"{name} is {array.dtype}, its space says {space.dtype}", fix)
        array = array.astype(space.dtype)
    if not space.contains(
        array if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary) else int(array)
    ):
        found("warn", "bounds", f"{name} is outside its space: {array.tolist()!s:.120}", "widen low and high, or clip")


def look_at_rest(reward: Any, terminated: Any, truncated: Any, info: Any, found: Found) -> None:
    """Check everything but the observation."""
    if np.ndim(reward) != 0 or not isinstance(reward, int | float | np.number):
        found("error", "reward", f"it is {reward!r}", STEP_FIX)
    elif not np.isfinite(float(reward)):
        found("error", "reward", f"it is {reward!r}: learning cannot use that", "bound the reward")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            found("warn", name, f"it is {flag!r}, not a bool", STEP_FIX)
    if not isinstance(info, dict):
        found("error", "info", f"it is {type(info).__name__}, not a dict", STEP_FIX)
