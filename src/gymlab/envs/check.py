"""What is wrong with an environment and how its author can put it right."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from gymlab.core.errors import GymlabError, UserError
from gymlab.envs.buffers import check_supported
from gymlab.envs.findings import Finding, Level, advance, begin, look, look_at_rest, sample
from gymlab.envs.make import DEFAULT_TIME_LIMIT, Env, make_env, time_limit
from gymlab.envs.registry import FRESH_PER_EPISODE, find_spec, resolve_id
from gymlab.envs.settings import EnvSettings

_STEPS = 60


def check_env(text: str, kwargs: dict[str, Any] | None = None) -> list[Finding]:
    """Everything that could be found out about an env, in the order in which it should be put right."""
    findings: list[Finding] = []
    settings = EnvSettings(id=text, kwargs=kwargs or {})
    for check in (_made, _spaces, _api, _seeding, _world, _limit, _masks, _rendering, _speed):
        try:
            findings += list(check(settings))
        except Exception as error:
            findings.append(
                Finding("error", check.__name__.strip("_"), f"the env raised {_where(error)}", "see the line named")
            )
        if check in (_made, _spaces, _api) and any(finding.level == "error" for finding in findings):
            findings.append(Finding("warn", "stopped here", "the other checks need the above to work"))
            break
    return findings


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"


def _made(settings: EnvSettings) -> Iterator[Finding]:
    try:
        note = resolve_id(settings.id).note
        env = make_env(settings)
    except GymlabError as error:
        fix = "" if "pip install" in str(error) else "name it as Id-v0, module:Id-v0, module:Class or ./file.py:Class"
        yield Finding("error", "made", str(error), fix)
        return
    env.close()
    if note:
        yield Finding("warn", "name", note, "use the new name")
    spec = find_spec(resolve_id(settings.id).id)
    yield Finding("ok", "made", f"registered as {spec.id}" if spec is not None else "made from its class")


def _spaces(settings: EnvSettings) -> Iterator[Finding]:
    env = make_env(settings)
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env.unwrapped, name, None), spaces.Space):
            fix = f"set self.{name} = gymnasium.spaces.… in __init__"
            yield Finding("error", name.replace("_", " "), "there is none", fix)
            return
    try:
        check_supported(env.observation_space, env.action_space)
    except GymlabError as error:
        yield Finding("error", "spaces", str(error), "flatten it into one of these, in the env or in a wrapper")
        return
    yield Finding("ok", "spaces", f"observations {_brief(env.observation_space)}, actions {_brief(env.action_space)}")
    action = env.action_space
    if isinstance(action, spaces.Box) and not action.is_bounded():
        fix = "give low and high: actions are clipped to them before they reach the env"
        yield Finding("warn", "action bounds", "the action Box has no bounds", fix)


def _brief(space: Any) -> str:
    if isinstance(space, spaces.Box):
        return f"Box{space.shape} {space.dtype}"
    return str(space)


def _api(settings: EnvSettings) -> Iterator[Finding]:
    """Whether reset and step give what Gymnasium asks for, over some random steps; each kind of problem once."""
    env = make_env(settings).unwrapped
    problems: dict[str, Finding] = {}

    def found(level: Level, title: str, detail: str, fix: str) -> None:
        problems.setdefault(title, Finding(level, title, detail, fix))

    try:
        obs, info = begin(env, found)
        look(env.observation_space, obs, "the first observation", found)
        env.action_space.seed(1)
        for t in range(_STEPS):
            obs, reward, terminated, truncated, info = advance(env, sample(env, info), found)
            look(env.observation_space, obs, f"the observation of step {t + 1}", found)
            look_at_rest(reward, terminated, truncated, info, found)
            if terminated or truncated:
                _, info = begin(env, found)
    except Exception as error:
        fix = "any action that action_space.sample() gives must work"
        found("error", "step", f"the env raised {_where(error)}", fix)
    finally:
        env.close()
    yield from problems.values()
    if not problems:
        yield Finding("ok", "reset and step", f"right over {_STEPS} random steps")


def _trace(env: Env, seed: int, steps: int = _STEPS, actions: int | None = None) -> list[bytes]:
    """One episode's observations and rewards, as bytes, under actions drawn from the seed or from another one."""
    env.action_space.seed(seed if actions is None else actions)
    obs, info = env.reset(seed=seed)
    seen = [_bytes(obs)]
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(sample(env, info))
        seen.append(_bytes(obs) + np.float64(reward).tobytes())
        if terminated or truncated:
            break
    return seen


def _bytes(obs: Any) -> bytes:
    if isinstance(obs, dict):
        return b"".join(_bytes(obs[key]) for key in sorted(obs))
    if isinstance(obs, tuple):
        return b"".join(map(_bytes, obs))
    return np.asarray(obs).tobytes()


def _seeding(settings: EnvSettings) -> Iterator[Finding]:
    first = make_env(settings)
    second = make_env(settings)
    same = [_trace(first, seed) == _trace(second, seed) for seed in (1, 2)]
    starts = {_trace(first, seed, 0)[0] for seed in range(8)}
    courses = {tuple(_trace(first, seed, actions=0)) for seed in range(4)}
    first.close()
    second.close()
    if not all(same):
        yield Finding(
            "error",
            "determinism",
            "the same seed and the same actions gave another episode: runs cannot be repeated or resumed exactly",
            "draw from self.np_random (after super().reset(seed=seed)), never from random, np.random or the clock",
        )
        return
    many = f"{len(starts)} different starts in 8 seeds" if len(starts) > 1 else "every seed starts the same way"
    yield Finding("ok", "determinism", f"seed and actions decide everything; {many}")
    if len(courses) == 1:
        yield Finding(
            "warn",
            "copies",
            "under the same actions all parallel envs do the same: only the policy's own chance makes them differ",
            "draw something from self.np_random at the reset, or use the wrapper sticky_actions; else few envs do",
        )


def _world(settings: EnvSettings) -> Iterator[Finding]:
    """Whether an episode depends on those before it, which no checkpoint could hold."""
    if resolve_id(settings.id).id in FRESH_PER_EPISODE:
        yield Finding("ok", "episodes", "it keeps a world across resets, so gymlab makes it anew for every episode")
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
        yield Finding("ok", "episodes", "each depends on its own seed alone")
        return
    yield Finding(
        "warn",
        "episodes",
        "an episode depends on the ones before it: after a resume it begins a new one (not exact)",
        "build everything anew in reset(), physics world included",
    )


def _limit(settings: EnvSettings) -> Iterator[Finding]:
    spec = find_spec(resolve_id(settings.id).id)
    if spec is not None and spec.max_episode_steps is not None:
        yield Finding("ok", "time limit", f"{spec.max_episode_steps} steps")
        return
    detail = f"none is registered: gymlab truncates after {time_limit(settings)} steps"
    if time_limit(settings) == DEFAULT_TIME_LIMIT:
        yield Finding("warn", "time limit", detail, "register(..., max_episode_steps=N), or set env.max_episode_steps")


def _masks(settings: EnvSettings) -> Iterator[Finding]:
    env = make_env(settings)
    _, info = env.reset(seed=1)
    stepped = env.step(sample(env, info))[4]
    action = env.action_space
    env.close()
    if "action_mask" not in info:
        return
    if not isinstance(action, spaces.Discrete):
        yield Finding("error", "action mask", "masks need a Discrete action space", "drop info['action_mask']")
    elif np.shape(info["action_mask"]) != (action.n,) or "action_mask" not in stepped:
        detail = f"it must come with every reset and step, one entry for each of the {action.n} actions"
        yield Finding("error", "action mask", detail, f"info['action_mask'] = np.ones({action.n}, np.int8)")
    else:
        yield Finding(
            "ok", "action mask", f"{int(np.sum(info['action_mask']))} of {action.n} actions are legal at the start"
        )


def _rendering(settings: EnvSettings) -> Iterator[Finding]:
    env = make_env(settings)
    modes = list(env.metadata.get("render_modes") or [])
    env.close()
    if "rgb_array" not in modes:
        fix = 'metadata = {"render_modes": ["rgb_array"], "render_fps": 30} and a render() that returns an image'
        yield Finding("warn", "rendering", f"it cannot be drawn as an image (render_modes: {modes}): no videos", fix)
        return
    try:
        frame = _draw(settings)
    except UserError as error:
        what, _, fix = str(error).rpartition(": ")
        yield Finding("warn", "rendering", what or str(error), fix)
        return
    except Exception as error:
        fix = "__init__ must take render_mode=None and keep it; drawing needs pip install 'gymlab[render]'"
        yield Finding("warn", "rendering", f"it failed: {error}", fix)
        return
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
        yield Finding(
            "warn", "rendering", f"render() gave {type(frame).__name__}", "return a (height, width, 3) uint8 array"
        )
        return
    yield Finding("ok", "rendering", f"{', '.join(modes)}; {frame.shape[1]}x{frame.shape[0]} pixels")


def _draw(settings: EnvSettings) -> Any:
    driver = os.environ.get("SDL_VIDEODRIVER")
    os.environ["SDL_VIDEODRIVER"] = "dummy"  # no window, and no complaint where there is no display
    try:
        env = make_env(settings, render_mode="rgb_array")
        env.reset(seed=1)
        frame: Any = env.render()
        env.close()
        return frame
    finally:
        if driver is None:
            del os.environ["SDL_VIDEODRIVER"]
        else:
            os.environ["SDL_VIDEODRIVER"] = driver


def _speed(settings: EnvSettings, budget: float = 0.2) -> Iterator[Finding]:
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
    yield Finding("ok", "speed", f"{rate:,.0f} steps/s{slow}")
