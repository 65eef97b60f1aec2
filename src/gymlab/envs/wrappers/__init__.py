"""Wrappers and transforms by name. One per file, each imported when a recipe asks for it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from gymlab.core.errors import UserError, suggestion
from gymlab.core.settings import Settings
from gymlab.envs.gymnasium_types import Env
from gymlab.envs.references import is_reference, load_reference
from gymlab.envs.settings import EnvKwargs, Part

Wrapping = Callable[..., Any]  # a transform's class, or what makes a wrapper around an env
S = TypeVar("S", bound=Settings)
WRAPPERS = {
    "objects": "gymlab.envs.games.atari.objects:AtariObjects",
    "atari": "gymlab.envs.games.atari.pictures:AtariPictures",
    "action_noise": "gymlab.envs.wrappers.action_noise:ActionNoise",
    "cartpole_centring": "gymlab.envs.wrappers.cartpole_centring:Centring",
    "clip_reward": "gymlab.envs.wrappers.clip_reward:ClipReward",
    "count_bonus": "gymlab.envs.wrappers.count_bonus:CountBonus",
    "doom": "gymlab.envs.games.doom:Doom",
    "drop_keys": "gymlab.envs.wrappers.drop_keys:DropKeys",
    "env_parts": "gymlab.envs.wrappers.env_parts:EnvParts",
    "flatten": "gymlab.envs.wrappers.flatten:Flatten",
    "frame_skip": "gymlab.envs.wrappers.frame_skip:FrameSkip",
    "frame_stack": "gymlab.envs.wrappers.frame_stack:FrameStack",
    "grayscale": "gymlab.envs.wrappers.grayscale:Grayscale",
    "keep_keys": "gymlab.envs.wrappers.keep_keys:KeepKeys",
    "mask_actions": "gymlab.envs.wrappers.mask_actions:MaskActions",
    "mountain_car_energy": "gymlab.envs.wrappers.mountain_car_energy:Energy",
    "observation_noise": "gymlab.envs.wrappers.observation_noise:ObservationNoise",
    "one_hot": "gymlab.envs.wrappers.one_hot:OneHot",
    "pixels": "gymlab.envs.wrappers.pixels:Pixels",
    "previous_actions": "gymlab.envs.wrappers.previous_actions:PreviousActions",
    "randomize": "gymlab.envs.wrappers.randomize:Randomize",
    "remap_actions": "gymlab.envs.wrappers.remap_actions:RemapActions",
    "resize": "gymlab.envs.wrappers.resize:Resize",
    "reward_weights": "gymlab.envs.wrappers.reward_weights:RewardWeights",
    "scale_observation": "gymlab.envs.wrappers.scale_observation:ScaleObservation",
    "scale_reward": "gymlab.envs.wrappers.scale_reward:ScaleReward",
    "sticky_actions": "gymlab.envs.wrappers.sticky_actions:StickyActions",
    "time_aware": "gymlab.envs.wrappers.time_aware:TimeAware",
    "time_penalty": "gymlab.envs.wrappers.time_penalty:TimePenalty",
}


def load_wrapper(name: str, base: Path | None = None) -> Wrapping:
    """The class behind a wrapper's name or reference."""
    if name in WRAPPERS:
        module, _, attribute = WRAPPERS[name].partition(":")
        named: Wrapping = getattr(importlib.import_module(module), attribute)
        return named
    if not is_reference(name):
        raise UserError(f"unknown wrapper '{name}': {suggestion(name, WRAPPERS)} (or give one as module:Name)")
    found = load_reference(name, base)
    if not callable(found):
        raise UserError(f"wrapper '{name}' is no class: it is {found!r}")
    return found


def is_transform(wrapper: Wrapping) -> bool:
    """Transforms act on whole VecSteps, outside the envs; all other wrappers go around each env."""
    return hasattr(wrapper, "apply") and hasattr(wrapper, "init")


def arguments(part: Part, wrapper: Wrapping) -> EnvKwargs:
    """A part's arguments by name: the bare value of the short form is the first one."""
    if part.value is None:
        return dict(part.args)
    if inspect.isclass(wrapper) and issubclass(wrapper, BaseModel):
        names = list(wrapper.model_fields)
    else:
        names = list(inspect.signature(wrapper).parameters)[0 if is_transform(wrapper) else 1 :]
    if not names:
        raise UserError(f"wrapper '{part.name}' takes no argument, got {part.value!r}")
    return {names[0]: part.value}


def parse_settings(model: type[S], name: str, options: EnvKwargs) -> S:
    """The arguments of the wrapper `name` as its settings; UserError names all that are wrong."""
    try:
        return model(**options)
    except ValidationError as error:
        raise UserError(f"wrapper '{name}': {_describe_problems(error, model)}") from error


def build(part: Part, wrapper: Wrapping, *inner: Env) -> Any:
    """An instance of a wrapper, around `inner` where it is of the env-side kind."""
    options = arguments(part, wrapper)
    try:
        if not (inspect.isclass(wrapper) and issubclass(wrapper, BaseModel)):
            inspect.signature(wrapper).bind(*inner, **options)
        return wrapper(*inner, **options)
    except ValidationError as error:
        assert inspect.isclass(wrapper), "only a pydantic model raises this"
        assert issubclass(wrapper, BaseModel)
        raise UserError(f"wrapper '{part.name}': {_describe_problems(error, wrapper)}") from error
    except (TypeError, ValueError) as error:
        raise UserError(f"wrapper '{part.name}': {error}{_valid_arguments(wrapper, len(inner))}") from error


def check_arguments(part: Part, wrapper: Wrapping) -> None:
    """Raise UserError for wrong arguments of an env-side wrapper, as far as they can be checked without an env."""
    options = arguments(part, wrapper)
    model = getattr(wrapper, "Settings", None)
    if inspect.isclass(model) and issubclass(model, Settings):
        parse_settings(model, part.name, options)
        return
    try:
        signature = inspect.signature(wrapper)
    except (TypeError, ValueError):
        return  # written in C, without a signature
    names = list(signature.parameters)[1:]
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        for key in options:
            if key not in names:
                hint = suggestion(key, names) if names else "it takes none"
                raise UserError(f"wrapper '{part.name}': unknown argument '{key}': {hint}")
    try:
        signature.bind(None, **options)
    except TypeError as error:
        raise UserError(f"wrapper '{part.name}': {error}{_valid_arguments(wrapper, 1)}") from error


def _describe_problems(error: ValidationError, model: type[BaseModel]) -> str:
    """All wrong arguments. Missing ones are named only if none is unknown: most likely it is the misspelt one."""
    faults = error.errors()
    unknown = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    texts: list[str] = []
    for fault in sorted(faults, key=lambda fault: fault not in unknown):
        key = str(fault["loc"][0]) if fault["loc"] else ""
        if fault in unknown:
            texts.append(f"unknown argument '{key}': {suggestion(key, model.model_fields)}")
        elif fault["type"] != "missing":
            texts.append(f"{key}={fault['input']!r}: {fault['msg'].removeprefix('Value error, ')}")
        elif not unknown:
            texts.append(f"the argument '{key}' is missing")
    return "; ".join(texts)


def _valid_arguments(wrapper: Wrapping, skip: int) -> str:
    try:
        names = list(inspect.signature(wrapper).parameters)[skip:]
    except (TypeError, ValueError):
        return ""
    return f" (its arguments: {', '.join(names) or 'none'})"
