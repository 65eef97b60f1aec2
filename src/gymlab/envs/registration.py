"""How an env that a user's script has registered gets known in another process."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry

from gymlab.core.errors import UserError
from gymlab.envs.registry import resolve_id

_KNOWN = ("gymnasium.", "gymlab.", "ale_py.")  # registered wherever gymlab is imported


def registration(text: str) -> str | None:
    """The env's registration as JSON, for `register`; None for a reference, which the other process imports."""
    spec = registry.get(resolve_id(text).id)
    if spec is None:
        return None
    entry: Any = spec.entry_point
    if callable(entry):
        module = entry.__module__
        name = getattr(entry, "__qualname__", "<")
        if module == "__main__" or "<" in name:
            raise UserError(f"{text} is registered by a script that other processes cannot import: move it to a module")
        entry = f"{module}:{name}"
    try:
        return dataclasses.replace(spec, entry_point=entry, vector_entry_point=None).to_json()
    except (TypeError, ValueError) as error:
        raise UserError(f"the registration of {text} cannot be sent to another process: {error}") from error


def foreign_registration(text: str) -> str | None:
    """As `registration`, for what no other process knows by itself; None too where it cannot be told."""
    try:
        told = registration(text)
    except UserError:
        return None
    return None if told is None or str(json.loads(told)["entry_point"]).startswith(_KNOWN) else told


def register(told: str | None) -> None:
    """Make what `registration` told known here, unless something of that name is already."""
    if told is not None:
        spec = EnvSpec.from_json(told)
        registry.setdefault(spec.id, spec)


def register_kept(told: str) -> None:
    """The same for what a run has kept, which may come from strangers: nothing but an env class is accepted."""
    try:
        spec = EnvSpec.from_json(told)
        if spec.id in registry:
            return
        entry = str(spec.entry_point)
        found = load_env_creator(entry)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UserError(f"the env's registration in the run's manifest cannot be used: {error}") from error
    except ImportError as error:
        raise UserError(f"{spec.id} is {entry}, which cannot be imported from here ({error})") from error
    if not (isinstance(found, type) and issubclass(found, gymnasium.Env)):
        raise UserError(f"{spec.id} is {entry} by the run's manifest, which is not a gymnasium.Env class")
    registry.setdefault(spec.id, spec)  # its module may have done so itself
