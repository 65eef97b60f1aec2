"""Making one environment: the registered env, its time limit, and the env-side wrappers around it."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry
from gymnasium.error import DependencyNotInstalled
from gymnasium.wrappers import MaxAndSkipObservation, OrderEnforcing, PassiveEnvChecker, TimeLimit

from gymlab.core.errors import GymlabError, UserError, suggestion
from gymlab.envs import mujoco
from gymlab.envs.gymnasium_types import Env
from gymlab.envs.references import import_module, load_reference
from gymlab.envs.registry import resolve_id
from gymlab.envs.settings import EnvKwargs, EnvSettings, Part
from gymlab.envs.transform import Transform
from gymlab.envs.wrappers import arguments, build, check_arguments, is_transform, load_wrapper
from gymlab.envs.wrappers.drop_keys import hide_unsupported
from gymlab.envs.wrappers.frame_skip import FrameSkip

DEFAULT_TIME_LIMIT = 1000
_GUARDS = (OrderEnforcing, PassiveEnvChecker)


class BareEnv(NamedTuple):
    """An env for an engine, without the Gymnasium wrappers whose work the engine does itself."""

    env: Env
    limit: int  # steps after which an episode is truncated
    truncates_itself: bool  # the env itself truncates; otherwise the engine must count steps


def make_env(settings: EnvSettings, *, render_mode: str | None = None, imports: tuple[str, ...] = ()) -> Env:
    """The env with Gymnasium's usual wrappers and time limit, then the env-side wrappers, innermost first.

    Outermost, entries of a Dict observation that no policy can be shown, such as text, are left out. The limit counts
    the env's own steps: the setting, else the registered one, else 1000.
    """
    import_all(imports)
    parts, _ = split_wrappers(settings)
    if any(getattr(load_wrapper(part.name), "needs_rendering", False) for part in parts):
        render_mode = "rgb_array"
    env = _construct(settings, render_mode, time_limit(settings))
    for part in parts:
        env = _wrap(env, part)
    return hide_unsupported(env)


def make_bare(settings: EnvSettings) -> BareEnv:
    """The same env for an engine: as few Python calls per step as possible."""
    limit = time_limit(settings)
    spec = _spec(settings.id)
    if split_wrappers(settings)[0] or (spec is not None and spec.additional_wrappers):
        return BareEnv(make_env(settings), limit, True)
    env = _construct(settings, None, None)
    while isinstance(env, _GUARDS):
        env = env.env
    return BareEnv(hide_unsupported(env), limit, False)


def time_limit(settings: EnvSettings) -> int:
    """Steps after which an episode is truncated."""
    spec = _spec(settings.id)
    registered = None if spec is None else spec.max_episode_steps or _frame_limit(spec, settings)
    return settings.max_episode_steps or registered or DEFAULT_TIME_LIMIT


def limit_steps_per_step(env: Env) -> int:
    """By how much a step advances the env's time limit: more than 1 where wrappers outside it skip frames."""
    count = 1
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, TimeLimit):
            return count
        if isinstance(env, MaxAndSkipObservation):
            count *= env._skip
        elif isinstance(env, FrameSkip):
            count *= env.k
        env = env.env
    return 1  # the limit is counted by the engine, or by the env itself


def limit_inside(env: Env) -> int | None:
    """The time limit an env object enforces itself: a spec with a limit does not mean that it is wrapped in it."""
    return int(env.get_wrapper_attr("_max_episode_steps")) if env.has_wrapper_attr("_max_episode_steps") else None


def split_wrappers(settings: EnvSettings, base: Path | None = None) -> tuple[tuple[Part, ...], tuple[Transform, ...]]:
    """The wrappers that go around each env, and the transforms (new instances) that act on whole VecSteps."""
    env_side: list[Part] = []
    transforms: list[Transform] = []
    for part in settings.wrappers:
        wrapper = load_wrapper(part.name, base)
        if is_transform(wrapper):
            transforms.append(build(part, wrapper))
        else:
            check_arguments(part, wrapper)
            env_side.append(part)
            if hasattr(wrapper, "extra_transforms"):  # transforms that belong to an env-side wrapper
                transforms.extend(wrapper.extra_transforms(arguments(part, wrapper)))
    return tuple(env_side), tuple(transforms)


def env_stack(env: Env) -> list[str]:
    """The env and the layers around it, innermost first, for the manifest."""
    layers: list[str] = []
    inner = env
    while isinstance(inner, gymnasium.Wrapper):
        recorded: EnvKwargs = getattr(inner, "_saved_kwargs", {})
        arguments_text = ", ".join(f"{key}={value!r}" for key, value in recorded.items())
        layers.append(f"{type(inner).__name__}({arguments_text})" if arguments_text else type(inner).__name__)
        inner = inner.env
    spec = inner.spec
    layers.append(type(inner).__name__ if spec is None else f"{type(inner).__name__} ({spec.id})")
    return layers[::-1]


def import_all(modules: tuple[str, ...]) -> None:
    """Import the modules that register envs."""
    for name in modules:
        import_module(name, f"import of '{name}'")


def _spec(text: str) -> EnvSpec | None:
    return registry.get(resolve_id(text).id.rpartition(":")[2])


def _frame_limit(spec: EnvSpec, settings: EnvSettings) -> int | None:
    """Atari games register their limit in frames."""
    kwargs = {**spec.kwargs, **resolve_id(settings.id).kwargs, **settings.kwargs}
    frames = kwargs.get("max_num_frames_per_episode")
    skip = kwargs.get("frameskip")
    return frames // skip if isinstance(frames, int) and isinstance(skip, int) else None


def _construct(settings: EnvSettings, render_mode: str | None, limit: int | None) -> Env:
    resolved = resolve_id(settings.id)
    kwargs = {**resolved.kwargs, **settings.kwargs}
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    spec = _spec(settings.id)
    _load_box2d(spec)
    creator = cast("Callable[..., object]", load_reference(resolved.id)) if spec is None else None
    try:
        if mujoco.is_mujoco(creator or _creator(spec)):
            mujoco.log_warnings()
            if render_mode is not None:
                mujoco.choose_gl_backend()
        if spec is not None:
            return gymnasium.make(spec, disable_env_checker=True, max_episode_steps=limit or -1, **kwargs)
        assert creator is not None, "either it is registered, or it is a reference"
        env = creator(**kwargs)
        if isinstance(env, gymnasium.Env):
            return env if limit is None else TimeLimit(env, limit)
    except GymlabError:
        raise
    except (DependencyNotInstalled, ImportError) as error:
        raise UserError(f"{settings.id} needs a package that is not installed: {error}") from error
    except Exception as error:  # any error of the env's author
        raise UserError(_why_not_made(settings.id, creator or _creator(spec), kwargs, error)) from error
    raise UserError(f"environment '{settings.id}' is not a gymnasium.Env (got {type(env).__name__})")


def _load_box2d(spec: EnvSpec | None) -> None:
    """Box2D's C code warns while it is imported, and crashes the interpreter where warnings are errors."""
    if spec is not None and str(spec.entry_point).startswith("gymnasium.envs.box2d") and "Box2D" not in sys.modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            importlib.import_module("Box2D")


def _creator(spec: EnvSpec | None) -> Callable[..., object] | None:
    entry = None if spec is None else spec.entry_point
    return load_env_creator(entry) if isinstance(entry, str) else entry


def _why_not_made(name: str, creator: Callable[..., object] | None, kwargs: EnvKwargs, error: Exception) -> str:
    parameters = inspect.signature(creator).parameters.values() if creator is not None else []
    names = [parameter.name for parameter in parameters]
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
        for key in kwargs:
            if isinstance(error, TypeError) and key not in names:
                hint = suggestion(key, names) if names else "it takes none"
                return f"env.kwargs: {name} has no parameter '{key}': {hint}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"could not make '{name}' with kwargs {kwargs}: {type(error).__name__}: {error} "
        f"({Path(frame.filename).name}:{frame.lineno})"
    )


def _wrap(env: Env, part: Part) -> Env:
    wrapped = build(part, load_wrapper(part.name), env)
    if not isinstance(wrapped, gymnasium.Env):
        raise UserError(f"wrapper '{part.name}' gave a {type(wrapped).__name__}, not a gymnasium.Env")
    return wrapped
