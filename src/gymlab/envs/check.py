"""Environment checks: API, spaces, seeding, limits, rendering and speed (`gymlab envs check`), each with a fix."""

from __future__ import annotations

import hashlib
import os
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, cast

import numpy as np
from gymnasium import spaces

from gymlab.core.errors import GymlabError, UserError
from gymlab.core.types import Space
from gymlab.envs.gymnasium_types import Env, EnvValue
from gymlab.envs.make import DEFAULT_TIME_LIMIT, make_env, time_limit
from gymlab.envs.observation_spaces import is_supported_leaf
from gymlab.envs.registry import FRESH_PER_EPISODE, find_spec, resolve_id
from gymlab.envs.settings import EnvKwargs, EnvSettings
from gymlab.envs.step_buffer import BadObservation, check_supported, checked_leaf
from gymlab.envs.wrappers.drop_keys import HideUnsupported

_STEPS = 60
_SEED_STEPS = 32
_SEEDS = (1, 2, 3)
Level = Literal["ok", "warn", "error"]
Found = Callable[[Level, str, str, str], None]  # (level, title, detail, fix)
UncheckedStep = tuple[EnvValue, object, object, object, object]  # of an env whose author may have erred
RESET_FIX = "def reset(self, *, seed=None, options=None): super().reset(seed=seed); ...; return obs, info"
STEP_FIX = "return obs, float(reward), bool(terminated), bool(truncated), info"


class CheckResult(NamedTuple):
    """The result of one check of `gymlab envs check`."""

    level: Level
    title: str
    detail: str
    fix: str = ""


def check_env(text: str, kwargs: EnvKwargs | None = None) -> list[CheckResult]:
    """The results of all checks, in the order in which problems should be fixed."""
    findings: list[CheckResult] = []
    settings = EnvSettings(id=text, kwargs=kwargs or {})
    for check in (_made, _spaces, _api, _seeding, _world, _limit, _masks, _rendering, _speed):
        try:
            findings += list(check(settings))
        except Exception as error:  # any error of the env's author is a result
            findings.append(
                CheckResult("error", check.__name__.strip("_"), f"the env raised {_where(error)}", "see the line named")
            )
        if check in (_made, _spaces, _api) and any(finding.level == "error" for finding in findings):
            findings.append(CheckResult("warn", "stopped here", "the other checks need the above to work"))
            break
    return findings


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


def _made(settings: EnvSettings) -> Iterator[CheckResult]:
    try:
        note = resolve_id(settings.id).note
        env = make_env(settings)
    except GymlabError as error:
        fix = "" if "pip install" in str(error) else "name it as Id-v0, module:Id-v0, module:Class or ./file.py:Class"
        yield CheckResult("error", "made", str(error), fix)
        return
    env.close()
    if note:
        yield CheckResult("warn", "name", note, "use the new name")
    spec = find_spec(resolve_id(settings.id).id)
    yield CheckResult("ok", "made", f"registered as {spec.id}" if spec is not None else "made from its class")


def _spaces(settings: EnvSettings) -> Iterator[CheckResult]:
    env = make_env(settings)
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env.unwrapped, name, None), spaces.Space):
            fix = f"set self.{name} = gymnasium.spaces.… in __init__"
            yield CheckResult("error", name.replace("_", " "), "there is none", fix)
            return
    try:
        check_supported(env.observation_space, env.action_space)
    except GymlabError as error:
        yield CheckResult("error", "spaces", str(error), "flatten it into one of these, in the env or in a wrapper")
        return
    yield CheckResult(
        "ok", "spaces", f"observations {_brief(env.observation_space)}, actions {_brief(env.action_space)}"
    )
    if isinstance(env, HideUnsupported):
        yield CheckResult("warn", "observation keys", env.note, "encode them as numbers, if the policy needs them")
    action = env.action_space
    if isinstance(action, spaces.Box) and not action.is_bounded():
        fix = "give low and high: actions are clipped to them before they reach the env"
        yield CheckResult("warn", "action bounds", "the action Box has no bounds", fix)


def _brief(space: Space) -> str:
    if isinstance(space, spaces.Box):
        return f"Box{space.shape} {space.dtype}"
    return str(space)


def _api(settings: EnvSettings) -> Iterator[CheckResult]:
    """Whether reset and step follow Gymnasium's API over some random steps; each kind of problem once."""
    env = make_env(settings).unwrapped
    problems: dict[str, CheckResult] = {}

    def found(level: Level, title: str, detail: str, fix: str) -> None:
        problems.setdefault(title, CheckResult(level, title, detail, fix))

    try:
        obs, info = checked_reset(env, found)
        check_observation(env.observation_space, obs, "the first observation", found)
        env.action_space.seed(1)
        for t in range(_STEPS):
            obs, reward, terminated, truncated, info = checked_step(env, sample(env, info), found)
            check_observation(env.observation_space, obs, f"the observation of step {t + 1}", found)
            check_step_result(reward, terminated, truncated, info, found)
            if terminated or truncated:
                _, info = checked_reset(env, found)
    except Exception as error:  # any error of the env's author is a result
        fix = "any action that action_space.sample() gives must work"
        found("error", "step", f"the env raised {_where(error)}", fix)
    finally:
        env.close()
    yield from problems.values()
    if not problems:
        yield CheckResult("ok", "reset and step", f"right over {_STEPS} random steps")


def _trace(env: Env, seed: int, steps: int = _STEPS, actions: int | None = None) -> list[bytes]:
    """An episode's observations and rewards as bytes; the action sampler is seeded by `actions`, else by `seed`."""
    env.action_space.seed(seed if actions is None else actions)
    obs, info = env.reset(seed=seed)
    seen = [_bytes(obs)]
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(sample(env, info))
        seen.append(_bytes(obs) + np.float64(reward).tobytes())
        if terminated or truncated:
            break
    return seen


def _bytes(obs: EnvValue) -> bytes:
    if isinstance(obs, dict):
        return b"".join(_bytes(obs[key]) for key in sorted(obs))
    if isinstance(obs, tuple):
        return b"".join(map(_bytes, obs))
    return np.asarray(obs).tobytes()


def _seeding(settings: EnvSettings) -> Iterator[CheckResult]:
    first = make_env(settings)
    second = make_env(settings)
    same = [_trace(first, seed) == _trace(second, seed) for seed in (1, 2)]
    starts = {_trace(first, seed, 0)[0] for seed in range(8)}
    courses = {tuple(_trace(first, seed, actions=0)) for seed in range(4)}
    first.close()
    second.close()
    if not all(same):
        yield CheckResult(
            "error",
            "determinism",
            "the same seed and the same actions gave another episode: runs cannot be repeated or resumed exactly",
            "draw from self.np_random (after super().reset(seed=seed)), never from random, np.random or the clock",
        )
        return
    many = f"{len(starts)} different starts in 8 seeds" if len(starts) > 1 else "every seed starts the same way"
    yield CheckResult("ok", "determinism", f"seed and actions decide everything; {many}")
    if len(courses) == 1:
        yield CheckResult(
            "warn",
            "copies",
            "under the same actions all parallel envs do the same: only the policy's own chance makes them differ",
            "draw something from self.np_random at the reset, or use the wrapper sticky_actions; else few envs do",
        )


def _world(settings: EnvSettings) -> Iterator[CheckResult]:
    """Whether an episode depends on earlier ones, whose effects no checkpoint contains."""
    if resolve_id(settings.id).id in FRESH_PER_EPISODE:
        yield CheckResult("ok", "episodes", "it keeps a world across resets, so gymlab makes it anew for every episode")
        return
    used = make_env(settings)
    new = make_env(settings)
    another = make_env(settings)
    for seed in (11, 12, 13):
        _trace(used, seed, 300)
    expected = _trace(new, 1)
    if expected != _trace(another, 1):
        return  # it is not even deterministic, which has been said
    same = _trace(used, 1) == expected
    for env in (used, new, another):
        env.close()
    if same:
        yield CheckResult("ok", "episodes", "each depends on its own seed alone")
        return
    yield CheckResult(
        "warn",
        "episodes",
        "an episode depends on the ones before it: after a resume it begins a new one (not exact)",
        "build everything anew in reset(), physics world included",
    )


def _limit(settings: EnvSettings) -> Iterator[CheckResult]:
    spec = find_spec(resolve_id(settings.id).id)
    if spec is not None and spec.max_episode_steps is not None:
        yield CheckResult("ok", "time limit", f"{spec.max_episode_steps} steps")
        return
    detail = f"none is registered: gymlab truncates after {time_limit(settings)} steps"
    if time_limit(settings) == DEFAULT_TIME_LIMIT:
        yield CheckResult(
            "warn", "time limit", detail, "register(..., max_episode_steps=N), or set env.max_episode_steps"
        )


def _masks(settings: EnvSettings) -> Iterator[CheckResult]:
    env = make_env(settings)
    _, info = env.reset(seed=1)
    stepped = env.step(sample(env, info))[4]
    action = env.action_space
    env.close()
    if "action_mask" not in info:
        return
    if not isinstance(action, spaces.Discrete):
        yield CheckResult("error", "action mask", "masks need a Discrete action space", "drop info['action_mask']")
    elif np.shape(info["action_mask"]) != (action.n,) or "action_mask" not in stepped:
        detail = f"it must come with every reset and step, one entry for each of the {action.n} actions"
        yield CheckResult("error", "action mask", detail, f"info['action_mask'] = np.ones({action.n}, np.int8)")
    else:
        yield CheckResult(
            "ok", "action mask", f"{int(np.sum(info['action_mask']))} of {action.n} actions are legal at the start"
        )


def _rendering(settings: EnvSettings) -> Iterator[CheckResult]:
    env = make_env(settings)
    modes = list(env.metadata.get("render_modes") or [])
    env.close()
    if "rgb_array" not in modes:
        fix = 'metadata = {"render_modes": ["rgb_array"], "render_fps": 30} and a render() that returns an image'
        yield CheckResult(
            "warn", "rendering", f"it cannot be drawn as an image (render_modes: {modes}): no videos", fix
        )
        return
    try:
        frame = _draw(settings)
    except UserError as error:
        what, _, fix = str(error).rpartition(": ")
        yield CheckResult("warn", "rendering", what or str(error), fix)
        return
    except Exception as error:  # any error of the env's author is a result
        fix = "__init__ must take render_mode=None and keep it; drawing needs pip install 'gymlab[render]'"
        yield CheckResult("warn", "rendering", f"it failed: {error}", fix)
        return
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
        yield CheckResult(
            "warn", "rendering", f"render() gave {type(frame).__name__}", "return a (height, width, 3) uint8 array"
        )
        return
    yield CheckResult("ok", "rendering", f"{', '.join(modes)}; {frame.shape[1]}x{frame.shape[0]} pixels")


def _draw(settings: EnvSettings) -> object:
    driver = os.environ.get("SDL_VIDEODRIVER")
    os.environ["SDL_VIDEODRIVER"] = "dummy"  # no window, and no complaint where there is no display
    try:
        env = make_env(settings, render_mode="rgb_array")
        env.reset(seed=1)
        frame: object = env.render()
        env.close()
        return frame
    finally:
        if driver is None:
            del os.environ["SDL_VIDEODRIVER"]
        else:
            os.environ["SDL_VIDEODRIVER"] = driver


def _speed(settings: EnvSettings, budget: float = 0.2) -> Iterator[CheckResult]:
    env = make_env(settings)
    env.action_space.seed(1)
    _, info = env.reset(seed=1)
    begin = time.perf_counter()
    done = 0
    while time.perf_counter() - begin < budget:
        _, _, terminated, truncated, info = env.step(sample(env, info))
        done += 1
        if terminated or truncated:
            _, info = env.reset(seed=done)
    rate = done / (time.perf_counter() - begin)
    env.close()
    slow = " (slow: gymlab will step it in several processes)" if rate < 1000 else ""
    yield CheckResult("ok", "speed", f"{rate:,.0f} steps/s{slow}")


def checked_reset(env: Env, found: Found) -> tuple[EnvValue, object]:
    """Reset; envs of an older API are reported, and their result is converted where possible."""
    try:
        result: object = env.reset(seed=1)
    except TypeError as error:
        if "'seed'" not in str(error):
            raise
        found("error", "seed", f"reset does not take one: {error}", RESET_FIX)
        result = env.reset()
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        return result[0], result[1]
    found("error", "reset", f"it returned {_kind(result)}, not (obs, info)", RESET_FIX)
    return (result[0] if isinstance(result, tuple) and result else cast("EnvValue", result)), {}


def checked_step(env: Env, action: EnvValue, found: Found) -> UncheckedStep:
    """Step, with the same conversion."""
    result: object = env.step(action)
    if isinstance(result, tuple) and len(result) == 5:
        obs, reward, terminated, truncated, info = result
        return obs, reward, terminated, truncated, info
    found("error", "step", f"it returned {_kind(result)}, not 5 values", STEP_FIX)
    if isinstance(result, tuple) and len(result) == 4:
        return result[0], result[1], bool(result[2]), False, result[3]
    raise ValueError("nothing more can be checked")


def _kind(value: object) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"one {type(value).__name__}"


def sample(env: Env, info: object) -> EnvValue:
    """A random action, legal under the env's action mask."""
    if isinstance(info, dict) and "action_mask" in info and isinstance(env.action_space, spaces.Discrete):
        return env.action_space.sample(np.asarray(info["action_mask"], np.int8))
    return env.action_space.sample()


def check_observation(space: Space, obs: EnvValue, name: str, found: Found) -> None:
    """Compare an observation with its space: shape, dtype, finiteness, bounds."""
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict) or set(obs) != set(space.spaces):
            result = sorted(obs) if isinstance(obs, dict) else type(obs).__name__
            found(
                "error",
                "observation keys",
                f"{name} has {result}, the space {sorted(space.spaces)}",
                "return every key",
            )
            return
        for key, inner in space.spaces.items():
            check_observation(inner, obs[key], f"{name}['{key}']", found)
        return
    if isinstance(space, spaces.Tuple):
        if not isinstance(obs, tuple) or len(obs) != len(space.spaces):
            found("error", "observation keys", f"{name} is {_kind(obs)}", f"return a tuple of {len(space.spaces)}")
            return
        for i, inner in enumerate(space.spaces):
            check_observation(inner, obs[i], f"{name}[{i}]", found)
        return
    if not is_supported_leaf(space):  # `_spaces` says whether it is left out or refused
        if not space.contains(obs):
            found("warn", "observation", f"{name} is not in {space}: {obs!r}", "make space and observation agree")
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


def check_step_result(reward: object, terminated: object, truncated: object, info: object, found: Found) -> None:
    """Check everything but the observation."""
    if not isinstance(reward, int | float | np.number):
        found("error", "reward", f"it is {reward!r}", STEP_FIX)
    elif not np.isfinite(float(reward)):
        found("error", "reward", f"it is {reward!r}: learning cannot use that", "bound the reward")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            found("warn", name, f"it is {flag!r}, not a bool", STEP_FIX)
    if not isinstance(info, dict):
        found("error", "info", f"it is {type(info).__name__}, not a dict", STEP_FIX)


def ignores_seed(settings: EnvSettings, imports: tuple[str, ...] = ()) -> bool:
    """Whether envs reset with different seeds behave identically, bit for bit, under the same actions.

    Parallel envs are then copies of each other. One env at a time: some kinds allow one per process.
    """
    seen = {_rollout_digest(settings, imports, seed) for seed in _SEEDS[:2]}
    return len(seen) == 1 and _rollout_digest(settings, imports, _SEEDS[2]) in seen


def _rollout_digest(settings: EnvSettings, imports: tuple[str, ...], seed: int) -> str:
    """A digest of all observations, rewards and endings of a few steps, over episode ends."""
    env = make_env(settings, imports=imports)
    digest = hashlib.sha256()
    try:
        env.action_space.seed(0)
        _update_digest(digest, env.reset(seed=seed)[0])
        for step in range(_SEED_STEPS):
            obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            _update_digest(digest, (obs, float(reward), bool(terminated)))
            if terminated or truncated:
                _update_digest(digest, env.reset(seed=1000 * seed + step)[0])
    finally:
        env.close()
    return digest.hexdigest()


def _update_digest(digest: hashlib._Hash, value: EnvValue) -> None:
    if isinstance(value, dict):
        value = tuple(sorted(value.items()))
    if isinstance(value, tuple | list):
        for item in value:
            _update_digest(digest, item)
    else:
        array = np.asarray(value)
        digest.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
